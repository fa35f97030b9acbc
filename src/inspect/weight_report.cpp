#include "tril/inspect/weight_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "tril/inspect/attention_report.h"
#include "tril/plot/page.h"
#include "tril/plot/svg.h"

namespace tril {
namespace {

constexpr std::string_view kWeightStyle = R"css(
#spectra .charts{grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr))}
.near{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,250px),1fr));gap:2px 24px;margin:10px 0}
.near div{border-bottom:1px solid var(--grid);padding:3px 0;overflow-wrap:anywhere}
.near b{display:inline-block;min-width:2.2em}
.near small{color:var(--quiet)}
)css";

constexpr std::string_view kWeightScript =
#include "weight_page.js"
    ;

std::string sizes_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

std::string shown_token(const std::string& token) {
  const std::string text = visible_token(token);
  return text == " " ? "' '" : text;
}

}  // namespace

OrderedJson weight_json(const WeightReport& report) {
  OrderedJson json;
  json["run"] = report.run;
  json["step"] = report.step;
  json["weights"] = OrderedJson::array();
  for (const auto& w : report.weights) {
    OrderedJson entry{{"name", w.name}, {"shape", w.shape}, {"rms", w.rms}, {"largest", w.largest}};
    if (!w.spectrum.empty()) {
      entry["spectral_norm"] = w.spectral_norm;
      entry["stable_rank"] = w.stable_rank;
      entry["spectrum"] = w.spectrum;
    }
    json["weights"].push_back(std::move(entry));
  }
  json["neighbours"] = OrderedJson::array();
  for (const auto& token : report.neighbours) {
    OrderedJson nearest = OrderedJson::array();
    for (const auto& n : token.nearest) {
      nearest.push_back({{"id", n.id},
                         {"text", visible_token(report.tokens[static_cast<size_t>(n.id)])},
                         {"cosine", n.cosine}});
    }
    json["neighbours"].push_back(
        {{"id", token.id},
         {"text", visible_token(report.tokens[static_cast<size_t>(token.id)])},
         {"nearest", std::move(nearest)}});
  }
  return json;
}

std::string weight_csv(const WeightReport& report) {
  std::string out = "name,shape,rms,largest,spectral_norm,stable_rank\n";
  for (const auto& w : report.weights) {
    out += fmt::format("{},{},{},{},", w.name, sizes_text(w.shape), w.rms, w.largest);
    out += w.spectrum.empty() ? ",\n" : fmt::format("{},{}\n", w.spectral_norm, w.stable_rank);
  }
  return out;
}

std::string weight_text(const WeightReport& report) {
  size_t width = 4;
  for (const auto& w : report.weights) width = std::max(width, w.name.size());
  std::string out = fmt::format("{:<{}}  {:>12}  {:>8}  {:>8}  {:>8}  {:>11}\n",
                                "name",
                                width,
                                "shape",
                                "rms",
                                "largest",
                                "spectral",
                                "stable rank");
  for (const auto& w : report.weights) {
    out += fmt::format(
        "{:<{}}  {:>12}  {:>8.4f}  {:>8.3f}", w.name, width, sizes_text(w.shape), w.rms, w.largest);
    if (!w.spectrum.empty())
      out += fmt::format("  {:>8.3f}  {:>11.1f}", w.spectral_norm, w.stable_rank);
    out += '\n';
  }
  if (report.neighbours.empty()) return out;
  out += "\nnearest in the embedding (cosine):\n";
  for (const auto& token : report.neighbours) {
    out += fmt::format("{:>8} ", shown_token(report.tokens[static_cast<size_t>(token.id)]));
    for (const auto& n : token.nearest) {
      out += fmt::format(
          "  {} {:.2f}", shown_token(report.tokens[static_cast<size_t>(n.id)]), n.cosine);
    }
    out += '\n';
  }
  return out;
}

std::string weight_page(const WeightReport& report) {
  OrderedJson data;
  data["weights"] = OrderedJson::array();
  for (const auto& w : report.weights) {
    OrderedJson spectrum = OrderedJson::array();
    for (const double value : w.spectrum) spectrum.push_back(rounded(value));
    data["weights"].push_back({{"name", w.name},
                               {"shape", w.shape},
                               {"rms", rounded(w.rms)},
                               {"largest", rounded(w.largest)},
                               {"norm", rounded(w.spectral_norm)},
                               {"rank", rounded(w.stable_rank)},
                               {"spectrum", std::move(spectrum)}});
  }
  data["neighbours"] = OrderedJson::array();
  for (const auto& token : report.neighbours) {
    OrderedJson nearest = OrderedJson::array();
    for (const auto& n : token.nearest) {
      nearest.push_back(
          {visible_token(report.tokens[static_cast<size_t>(n.id)]), rounded(n.cosine)});
    }
    data["neighbours"].push_back(
        {visible_token(report.tokens[static_cast<size_t>(token.id)]), std::move(nearest)});
  }
  Page page;
  page.title = fmt::format("Weights of {}", report.run);
  page.style = kWeightStyle;
  const std::string script = std::string(chart_script()) + std::string(kWeightScript);
  page.script = script;
  page.data = std::move(data);
  page.body = fmt::format(
      R"html(<header><h1>The weights of {}</h1><p class="quiet">Step {}; {} tensors.</p></header>
<main>
<h2>Size by block</h2>
<div class="charts"><figure class="chart" id="rms"></figure><figure class="chart" id="norms"></figure></div>
<h2>Spectra</h2>
<p class="quiet">Singular values of each matrix, from the largest down. A flat curve uses all its directions, a steep one a few.</p>
<div id="spectra"><div class="charts"></div></div>
<h2>Neighbours in the embedding</h2>
<p class="quiet">Which tokens the model holds alike: cosine of their rows.</p>
<div class="near" id="near"></div>
<h2>Every tensor</h2>
<div class="scroll"><table id="all"><thead><tr><th>name</th><th>shape</th><th>rms</th><th>largest</th><th>spectral norm</th><th>stable rank</th></tr></thead><tbody></tbody></table></div>
</main>
<footer>Made by tril inspect weights. One file, no network.</footer>)html",
      escape_markup(report.run),
      report.step,
      report.weights.size());
  return render_page(page);
}

}  // namespace tril
