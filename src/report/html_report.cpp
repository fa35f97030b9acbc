#include "tril/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tril/plot/page.h"
#include "tril/plot/svg.h"
#include "tril/plot/svg_plot.h"

namespace tril {
namespace {

constexpr size_t kMostSampleBytes = 300'000;  ///< of all runs together
constexpr size_t kMostSampleText = 4'000;     ///< of one

constexpr std::string_view kReportStyle =
#include "report_page.css"
    ;
constexpr std::string_view kReportScript =
#include "report_page.js"
    ;

/// Five significant digits: finer than a pixel, and short. What is not finite becomes null.
OrderedJson brief(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::round(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) ? std::round(value * scale) / scale : value;
}

OrderedJson numbers(const std::vector<double>& values) {
  OrderedJson json = OrderedJson::array();
  for (const double value : values) json.push_back(brief(value));
  return json;
}

OrderedJson numbers(const std::vector<double>& values, const std::vector<size_t>& kept) {
  OrderedJson json = OrderedJson::array();
  for (const size_t i : kept) json.push_back(brief(values[i]));
  return json;
}

std::string cut(const std::string& text, size_t n_bytes) {
  if (text.size() <= n_bytes) return text;
  size_t end = n_bytes;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // whole characters
  return text.substr(0, end) + "…";
}

/// Evenly chosen over the run, the newest among them.
OrderedJson chosen_samples(const std::vector<SampleText>& samples, size_t most_bytes) {
  OrderedJson json = OrderedJson::array();
  size_t bytes = 0;
  for (const auto& s : samples) bytes += std::min(s.text.size(), kMostSampleText) + s.prompt.size();
  const size_t stride = bytes / std::max<size_t>(most_bytes, 1) + 1;
  for (size_t i = 0; i < samples.size(); ++i) {
    if ((samples.size() - 1 - i) % stride != 0) continue;
    json.push_back({{"step", samples[i].step},
                    {"prompt", cut(samples[i].prompt, kMostSampleText)},
                    {"text", cut(samples[i].text, kMostSampleText)}});
  }
  return json;
}

OrderedJson run_data(const RunRecord& run, size_t most_points, size_t most_sample_bytes) {
  const StepSeries& s = run.steps;
  const auto kept = kept_points(s.loss, most_points);
  OrderedJson json;
  json["name"] = run.name;
  json["start"] = OrderedJson(run.start);
  json["config"] = OrderedJson(run.config);
  json["sessions"] = run.n_sessions;
  json["bad_lines"] = run.n_bad_lines;
  json["logged"] = s.step.size();
  json["step"] = numbers(s.step, kept);
  json["tokens"] = numbers(s.tokens, kept);
  json["seconds"] = numbers(s.seconds, kept);
  json["loss"] = numbers(s.loss, kept);
  json["learning_rate"] = numbers(s.learning_rate, kept);
  json["grad_norm"] = numbers(s.grad_norm, kept);
  json["rate"] = numbers(s.tokens_per_second, kept);
  json["memory"] = numbers(s.memory_bytes, kept);
  json["eval"] = {{"step", numbers(run.evals.step)},
                  {"tokens", numbers(run.evals.tokens)},
                  {"seconds", numbers(run.evals.seconds)},
                  {"loss", numbers(run.evals.loss)},
                  {"bits", numbers(run.evals.bits_per_byte)}};
  json["floor"] = run.floor >= 0 ? brief(run.floor) : OrderedJson();
  OrderedJson rms = OrderedJson::array();
  OrderedJson norms = OrderedJson::array();
  for (const auto& part : run.blocks.weight_rms) rms.push_back(numbers(part));
  for (const auto& part : run.blocks.grad_norm) norms.push_back(numbers(part));
  json["blocks"] = {{"names", run.blocks.names},
                    {"step", numbers(run.blocks.step)},
                    {"rms", std::move(rms)},
                    {"norm", std::move(norms)}};
  json["samples"] = chosen_samples(run.samples, most_sample_bytes);
  return json;
}

}  // namespace

OrderedJson report_data(const std::vector<RunRecord>& runs, const ReportOptions& options) {
  OrderedJson json;
  json["live"] = options.live;
  json["runs"] = OrderedJson::array();
  const size_t n = std::max<size_t>(runs.size(), 1);
  for (const auto& run : runs) {
    json["runs"].push_back(
        run_data(run, std::max<size_t>(options.most_points / n, 200), kMostSampleBytes / n));
  }
  return json;
}

std::string html_report(const std::vector<RunRecord>& runs, const ReportOptions& options) {
  Page page;
  page.live = options.live;
  page.title = runs.size() == 1 ? fmt::format("Training report: {}", runs.front().name)
                                : fmt::format("Training report: {} runs", runs.size());
  page.style = kReportStyle;
  const std::string script = std::string(chart_script()) + std::string(kReportScript);
  page.script = script;
  page.data = report_data(runs, options);

  std::string figures;  // what there is to see without a script
  for (const auto& [name, svg] : report_figures(runs)) {
    if (name == "loss" || name == "learning_rate") figures += svg;
  }
  page.body = fmt::format(
      R"html(<header><h1>{title}</h1><p class="quiet" id="lead"></p></header>
<main>
<noscript><p>This page draws its curves with a script, which is turned off. Two of them as they are:</p>{figures}</noscript>
<section id="facts"></section>
<section id="compare"></section>
<div class="controls" id="controls" hidden>
<span>along <span class="group" id="axis"><button type="button" data-x="step" aria-pressed="true">steps</button><button type="button" data-x="tokens" aria-pressed="false">tokens</button><button type="button" data-x="seconds" aria-pressed="false">time</button></span></span>
<span>loss <span class="group" id="scale"><button type="button" data-log="0" aria-pressed="true">linear</button><button type="button" data-log="1" aria-pressed="false">log</button></span></span>
<label>smoothing <input type="range" id="memory" min="0" max="100" value="50"></label>
<span class="quiet" id="live" role="status"></span>
</div>
<div class="charts" id="charts"></div>
<div id="parts"></div>
<section id="samples"></section>
<section id="about"></section>
</main>
<footer>Made by tril report. One file, no network. Left and right arrow keys read a chart that has the focus.</footer>)html",
      fmt::arg("title", escape_markup(page.title)),
      fmt::arg("figures", figures));
  return render_page(page);
}

}  // namespace tril
