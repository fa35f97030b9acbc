#pragma once
// Line figures as SVG: one file that stands alone, in light and dark, and prints.

#include <string>
#include <vector>

namespace tril {

struct PlotSeries {
  enum class Kind { kLine, kFaint, kDots };  ///< kDots: a line with a mark at every point

  std::string name;       ///< written at its right end; empty: no label
  std::vector<double> x;  ///< as many as y, rising
  std::vector<double> y;  ///< points that are not finite are left out (with log_y, also y <= 0)
  int color = 0;          ///< see series_color
  Kind kind = Kind::kLine;
};

/// A value to compare with, drawn as a dashed line across the figure.
struct PlotReference {
  std::string name;
  double y = 0;
};

struct SvgPlot {
  std::string title;
  std::string x_label = {};
  std::string y_label = {};  ///< with its unit
  bool log_y = false;
  std::vector<PlotSeries> series = {};
  std::vector<PlotReference> references = {};
  int width = 760;  ///< pixels
  int height = 360;
};

/// The figure as an <svg> element. `standalone` adds the style that a page has already.
std::string render_svg(const SvgPlot& plot, bool standalone = true);

/// Which of these values to draw when about `n` points are enough: the first and the last, and of
/// each stretch between them the lowest and the highest, so that no spike is lost. Rising.
std::vector<size_t> kept_points(const std::vector<double>& values, size_t n);

}  // namespace tril
