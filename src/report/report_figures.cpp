// The figures of a report as SVG files.

#include <fmt/format.h>

#include <cmath>

#include "tril/plot/svg_plot.h"
#include "tril/report/html_report.h"

namespace tril {
namespace {

constexpr size_t kMostPoints = 1200;  ///< more than a printed figure can show

PlotSeries series(std::string name,
                  const std::vector<double>& x,
                  const std::vector<double>& y,
                  int color,
                  PlotSeries::Kind kind) {
  PlotSeries result{.name = std::move(name), .x = {}, .y = {}, .color = color, .kind = kind};
  for (const size_t i : kept_points(y, kMostPoints)) {
    result.x.push_back(x[i]);
    result.y.push_back(y[i]);
  }
  return result;
}

std::vector<double> exponential(std::vector<double> values) {
  for (double& value : values) value = std::exp(value);
  return values;
}

std::string short_name(const RunRecord& run) {
  const auto slash = run.name.find_last_of('/');
  return slash == std::string::npos ? run.name : run.name.substr(slash + 1);
}

double uniform_loss(const RunRecord& run) {
  const auto found =
      run.start.is_object() ? run.start.find("expected_first_loss") : run.start.end();
  return run.start.is_object() && found != run.start.end() && found->is_number()
             ? found->get<double>()
             : -1;
}

/// Training (raw and smoothed) and validation of every run.
void add_losses(SvgPlot& plot, const std::vector<RunRecord>& runs, bool perplexity) {
  const bool one = runs.size() == 1;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& run = runs[r];
    const int color = static_cast<int>(r);
    const auto shown = [&](const std::vector<double>& v) {
      return perplexity ? exponential(v) : v;
    };
    const auto smooth = smoothed(run.steps.loss, default_memory(run.steps.loss.size()));
    if (one) {
      plot.series.push_back(
          series("", run.steps.step, shown(run.steps.loss), color, PlotSeries::Kind::kFaint));
    }
    plot.series.push_back(series(one ? "training" : short_name(run),
                                 run.steps.step,
                                 shown(smooth),
                                 color,
                                 PlotSeries::Kind::kLine));
    if (run.evals.step.empty()) continue;
    plot.series.push_back(series(one ? "validation" : "",
                                 run.evals.step,
                                 shown(run.evals.loss),
                                 one ? color + 1 : color,
                                 PlotSeries::Kind::kDots));
  }
  const double uniform = uniform_loss(runs.front());
  if (uniform > 0) {
    plot.references.push_back({perplexity ? fmt::format("uniform guess: {:.0f}", std::exp(uniform))
                                          : fmt::format("uniform guess: ln V = {:.3f}", uniform),
                               perplexity ? std::exp(uniform) : uniform});
  }
  const double floor = runs.front().floor;
  if (floor >= 0) {
    plot.references.push_back(
        {fmt::format("floor of the corpus: {:.3f}", perplexity ? std::exp(floor) : floor),
         perplexity ? std::exp(floor) : floor});
  }
}

SvgPlot one_curve(const std::vector<RunRecord>& runs,
                  std::string title,
                  std::string unit,
                  std::vector<double> StepSeries::*values,
                  double scale = 1) {
  SvgPlot plot{.title = std::move(title), .x_label = "step", .y_label = std::move(unit)};
  for (size_t r = 0; r < runs.size(); ++r) {
    std::vector<double> y = runs[r].steps.*values;
    for (double& value : y) value *= scale;
    plot.series.push_back(series(runs.size() == 1 ? "" : short_name(runs[r]),
                                 runs[r].steps.step,
                                 y,
                                 static_cast<int>(r),
                                 PlotSeries::Kind::kLine));
  }
  return plot;
}

SvgPlot parts(const RunRecord& run,
              std::string title,
              const std::vector<std::vector<double>>& values) {
  SvgPlot plot{.title = std::move(title), .x_label = "step", .y_label = "", .log_y = true};
  for (size_t i = 0; i < run.blocks.names.size(); ++i) {
    plot.series.push_back(series(run.blocks.names[i],
                                 run.blocks.step,
                                 values[i],
                                 static_cast<int>(i),
                                 PlotSeries::Kind::kDots));
  }
  return plot;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> report_figures(
    const std::vector<RunRecord>& runs) {
  std::vector<std::pair<std::string, std::string>> figures;
  SvgPlot loss{.title = "Loss", .x_label = "step", .y_label = "nats per token"};
  add_losses(loss, runs, /*perplexity=*/false);
  figures.emplace_back("loss", render_svg(loss));
  SvgPlot perplexity{
      .title = "Perplexity", .x_label = "step", .y_label = "exp(loss), log scale", .log_y = true};
  add_losses(perplexity, runs, /*perplexity=*/true);
  figures.emplace_back("perplexity", render_svg(perplexity));
  figures.emplace_back(
      "learning_rate",
      render_svg(one_curve(runs, "Learning rate", "", &StepSeries::learning_rate)));
  SvgPlot norm =
      one_curve(runs, "Gradient norm", "before clipping, log scale", &StepSeries::grad_norm);
  norm.log_y = true;
  figures.emplace_back("gradient_norm", render_svg(norm));
  figures.emplace_back(
      "throughput",
      render_svg(
          one_curve(runs, "Throughput", "tokens per second", &StepSeries::tokens_per_second)));
  figures.emplace_back(
      "memory", render_svg(one_curve(runs, "Memory", "MB", &StepSeries::memory_bytes, 1e-6)));
  for (const auto& run : runs) {
    if (run.blocks.step.empty()) continue;
    const std::string suffix =
        runs.size() == 1 ? std::string() : fmt::format("_{}", short_name(run));
    figures.emplace_back(
        "weight_rms" + suffix,
        render_svg(parts(run, "Weights, root mean square", run.blocks.weight_rms)));
    figures.emplace_back("block_gradients" + suffix,
                         render_svg(parts(run, "Gradient norm by part", run.blocks.grad_norm)));
  }
  return figures;
}

}  // namespace tril
