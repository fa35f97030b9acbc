#include "tril/plot/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tril/plot/svg.h"
#include "tril/plot/ticks.h"

namespace tril {
namespace {

constexpr double kLeft = 62;
constexpr double kTop = 40;
constexpr double kBottom = 46;
constexpr double kTickPixels = 80;     ///< at least so far apart along x
constexpr double kLabelPixels = 15;    ///< between two labels, one below the other
constexpr double kLetterPixels = 6.7;  ///< mean width of a letter at 12 px

/// A label beside the right edge.
struct EndLabel {
  double y = 0;
  std::string text;
  std::string color;
};

/// Moves labels apart, keeping their order, inside [low, high].
void spread(std::vector<EndLabel>& labels, double low, double high) {
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.y < b.y; });
  double next = low;
  for (auto& label : labels) {
    label.y = std::max(label.y, next);
    next = label.y + kLabelPixels;
  }
  double limit = high;
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    label->y = std::min(label->y, limit);
    limit = label->y - kLabelPixels;
  }
}

class Renderer {
 public:
  explicit Renderer(const SvgPlot& plot) : plot_(plot) {
    std::vector<double> xs, ys;
    size_t longest = 0;
    for (const auto& s : plot.series) {
      for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
        if (!is_shown(s.y[i])) continue;
        xs.push_back(s.x[i]);
        ys.push_back(s.y[i]);
      }
      longest = std::max(longest, s.name.size());
    }
    for (const auto& r : plot.references) ys.push_back(r.y);
    x_range_ = range_of(xs);
    y_range_ = range_of(ys, plot.log_y);
    if (!plot.log_y) {
      const double margin = 0.04 * (y_range_.high - y_range_.low);
      const bool from_zero = y_range_.low >= 0 && y_range_.low < 0.3 * y_range_.high;
      y_range_ = {from_zero ? 0 : y_range_.low - margin, y_range_.high + margin};
    }
    const double label_width =
        14 + kLetterPixels * static_cast<double>(std::min<size_t>(longest, 24));
    right_ = plot.width - std::max(24.0, longest == 0 ? 24.0 : label_width);
    bottom_ = plot.height - kBottom;
  }

  std::string render(bool standalone) {
    out_ = fmt::format(
        R"svg(<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {} {}" role="img" aria-label="{}">)svg",
        plot_.width,
        plot_.height,
        escape_markup(plot_.title));
    if (standalone) {
      out_ += fmt::format("<style>{}</style>", figure_style());
      out_ += R"svg(<rect width="100%" height="100%" fill="var(--paper)"/>)svg";
    }
    add(R"svg(<text class="title" x="{:.0f}" y="20">{}</text>)svg",
        12.0,
        escape_markup(plot_.title));
    axes();
    references();
    std::vector<EndLabel> labels;
    for (const auto& s : plot_.series) curve(s, labels);
    spread(labels, kTop + 4, bottom_ + 4);
    for (const auto& label : labels) {
      add(R"svg(<text x="{:.0f}" y="{:.1f}" style="fill:{}">{}</text>)svg",
          right_ + 7,
          label.y,
          label.color,
          escape_markup(label.text));
    }
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  bool is_shown(double y) const { return std::isfinite(y) && (!plot_.log_y || y > 0); }

  double px(double x) const {
    return kLeft + (x - x_range_.low) / (x_range_.high - x_range_.low) * (right_ - kLeft);
  }
  double py(double y) const {
    const double t = plot_.log_y
                         ? std::log(y / y_range_.low) / std::log(y_range_.high / y_range_.low)
                         : (y - y_range_.low) / (y_range_.high - y_range_.low);
    return bottom_ - t * (bottom_ - kTop);
  }

  void axes() {
    const auto y_ticks = plot_.log_y ? log_ticks(y_range_, 6) : linear_ticks(y_range_, 6);
    const double y_step = y_ticks.size() > 1 && !plot_.log_y ? y_ticks[1] - y_ticks[0] : 0;
    for (const double tick : y_ticks) {
      add(R"svg(<line class="grid" x1="{:.0f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)svg",
          kLeft,
          right_,
          py(tick),
          py(tick));
      add(R"svg(<text class="quiet" x="{:.0f}" y="{:.1f}" text-anchor="end">{}</text>)svg",
          kLeft - 8,
          py(tick) + 4,
          format_tick(tick, y_step));
    }
    const auto x_ticks = linear_ticks(x_range_, static_cast<int>((right_ - kLeft) / kTickPixels));
    const double x_step = x_ticks.size() > 1 ? x_ticks[1] - x_ticks[0] : 0;
    for (const double tick : x_ticks) {
      add(R"svg(<text class="quiet" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)svg",
          px(tick),
          bottom_ + 18,
          format_tick(tick, x_step));
    }
    add(R"svg(<text class="quiet" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)svg",
        (kLeft + right_) / 2,
        bottom_ + 37,
        escape_markup(plot_.x_label));
    add(R"svg(<text class="quiet" x="{:.0f}" y="{:.0f}" text-anchor="end">{}</text>)svg",
        static_cast<double>(plot_.width) - 12,
        20.0,
        escape_markup(plot_.y_label));
  }

  /// Above the line, where a falling curve comes down to it; below a line in the lower half, where
  /// the curve ends above it.
  double reference_label_offset(double y) const {
    const bool below = y > (kTop + bottom_) / 2 && y + 12 < bottom_;
    return below ? 11 : -5;
  }

  void references() {
    for (const auto& r : plot_.references) {
      if (!is_shown(r.y)) continue;
      add(R"svg(<line class="reference" x1="{:.0f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)svg",
          kLeft,
          right_,
          py(r.y),
          py(r.y));
      add(R"svg(<text class="quiet" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)svg",
          right_ - 4,
          py(r.y) + reference_label_offset(py(r.y)),
          escape_markup(r.name));
    }
  }

  void curve(const PlotSeries& s, std::vector<EndLabel>& labels) {
    std::string path;
    std::string dots;
    double last = 0;
    bool pen_down = false;
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      if (!is_shown(s.y[i])) {
        pen_down = false;
        continue;
      }
      last = py(s.y[i]);
      fmt::format_to(
          std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? "L" : "M", px(s.x[i]), last);
      pen_down = true;
      if (s.kind == PlotSeries::Kind::kDots) {
        fmt::format_to(std::back_inserter(dots),
                       R"svg(<circle cx="{:.1f}" cy="{:.1f}" r="3"/>)svg",
                       px(s.x[i]),
                       last);
      }
    }
    if (path.empty()) return;
    const std::string color = series_color(s.color);
    add(R"svg(<path class="curve{}" style="stroke:{}" d="{}"/>)svg",
        s.kind == PlotSeries::Kind::kFaint ? " faint" : "",
        color,
        path);
    if (!dots.empty()) add(R"svg(<g style="fill:{}">{}</g>)svg", color, dots);
    if (!s.name.empty()) labels.push_back({last + 4, s.name, color});
  }

  const SvgPlot& plot_;
  AxisRange x_range_, y_range_;
  double right_ = 0;
  double bottom_ = 0;
  std::string out_;
};

}  // namespace

std::string render_svg(const SvgPlot& plot, bool standalone) {
  return Renderer(plot).render(standalone);
}

std::vector<size_t> kept_points(const std::vector<double>& values, size_t n) {
  const size_t size = values.size();
  std::vector<size_t> kept;
  if (size <= n || n < 4) {
    kept.resize(size);
    std::iota(kept.begin(), kept.end(), size_t{0});
    return kept;
  }
  kept.push_back(0);
  const size_t n_stretches = (n - 2) / 2;
  for (size_t k = 0; k < n_stretches; ++k) {
    const auto begin = static_cast<ptrdiff_t>(1 + k * (size - 2) / n_stretches);
    const auto end = static_cast<ptrdiff_t>(1 + (k + 1) * (size - 2) / n_stretches);
    const auto [low, high] = std::minmax_element(values.begin() + begin, values.begin() + end);
    const auto first = static_cast<size_t>(std::min(low, high) - values.begin());
    const auto second = static_cast<size_t>(std::max(low, high) - values.begin());
    kept.push_back(first);
    if (second != first) kept.push_back(second);
  }
  kept.push_back(size - 1);
  return kept;
}

}  // namespace tril
