#include "tril/plot/terminal_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "tril/base/utf8.h"
#include "tril/plot/ticks.h"

namespace tril {
namespace {

constexpr int kMargin = 9;  ///< columns of the numbers at the left, and the axis

/// A drawing of cells, each of 2 x 4 dots (braille) or of one character.
class Canvas {
 public:
  Canvas(int columns, int rows, bool unicode)
      : columns_(columns),
        rows_(rows),
        unicode_(unicode),
        cells_(static_cast<size_t>(columns * rows), 0) {}

  int dots_x() const { return unicode_ ? 2 * columns_ : columns_; }
  int dots_y() const { return unicode_ ? 4 * rows_ : rows_; }

  void set(int x, int y, char mark) {
    if (x < 0 || y < 0 || x >= dots_x() || y >= dots_y()) return;
    if (!unicode_) {
      cell(x, y) = mark;
      return;
    }
    // Unicode 2800: bits of a braille cell, column by column.
    static constexpr std::array<std::array<int, 2>, 4> kBits{
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    cell(x / 2, y / 4) |= kBits[static_cast<size_t>(y % 4)][static_cast<size_t>(x % 2)];
  }

  void line(int x0, int y0, int x1, int y1, char mark) {
    const int n = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= n; ++i) {
      set(x0 + static_cast<int>(std::lround(1.0 * i * (x1 - x0) / n)),
          y0 + static_cast<int>(std::lround(1.0 * i * (y1 - y0) / n)),
          mark);
    }
  }

  std::string row(int y) const {
    std::string text;
    for (int x = 0; x < columns_; ++x) {
      const int c = cells_[static_cast<size_t>(y * columns_ + x)];
      if (c == 0) {
        text += ' ';
      } else if (unicode_) {
        append_utf8(text, 0x2800 + static_cast<char32_t>(c));
      } else {
        text += static_cast<char>(c);
      }
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  int& cell(int x, int y) { return cells_[static_cast<size_t>(y * columns_ + x)]; }

  int columns_;
  int rows_;
  bool unicode_;
  std::vector<int> cells_;
};

}  // namespace

std::vector<std::string> render_terminal_chart(const TerminalChart& chart) {
  std::vector<double> xs, ys;
  for (const auto& s : chart.series) {
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      if (!std::isfinite(s.y[i])) continue;
      xs.push_back(s.x[i]);
      ys.push_back(s.y[i]);
    }
  }
  if (xs.empty()) return {};
  const AxisRange x_range = range_of(xs);
  const AxisRange y_range = range_of(ys);
  const int columns = std::max(chart.width, 30) - kMargin;
  const int rows = std::max(chart.height, 3);
  Canvas canvas(columns, rows, chart.unicode);
  const auto dot_x = [&](double x) {
    return static_cast<int>(
        std::lround((x - x_range.low) / (x_range.high - x_range.low) * (canvas.dots_x() - 1)));
  };
  const auto dot_y = [&](double y) {
    return static_cast<int>(
        std::lround((y_range.high - y) / (y_range.high - y_range.low) * (canvas.dots_y() - 1)));
  };
  std::string legend;
  for (const auto& s : chart.series) {
    bool pen_down = false;
    int before_x = 0, before_y = 0;
    for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
      if (!std::isfinite(s.y[i])) {
        pen_down = false;
        continue;
      }
      const int x = dot_x(s.x[i]);
      const int y = dot_y(s.y[i]);
      if (s.points) {  // a small cross, to be told from a line
        for (const int d : {-1, 0, 1}) {
          if (!chart.unicode && d != 0) continue;
          canvas.set(x + d, y, s.mark);
          canvas.set(x, y + d, s.mark);
        }
      } else {
        canvas.line(pen_down ? before_x : x, pen_down ? before_y : y, x, y, s.mark);
      }
      pen_down = true;
      before_x = x;
      before_y = y;
    }
    if (s.name.empty()) continue;
    const std::string mark = chart.unicode ? (s.points ? "+" : "\u2500") : std::string(1, s.mark);
    legend += fmt::format("{}{} {}", legend.empty() ? "" : "   ", mark, s.name);
  }

  std::vector<std::string> lines;
  const double step = (y_range.high - y_range.low) / rows;
  for (int row = 0; row < rows; ++row) {
    std::string number;
    if (row == 0) number = format_tick(y_range.high, step);
    if (row == rows - 1) number = format_tick(y_range.low, step);
    if (row == (rows - 1) / 2 && rows >= 5) {
      number = format_tick(y_range.high - step * (row + 0.5), step);
    }
    lines.push_back(
        fmt::format("{:>7} {}{}", number, chart.unicode ? "\u2502" : "|", canvas.row(row)));
  }
  const std::string left = format_tick(x_range.low);
  const std::string right = fmt::format("{} {}", chart.x_label, format_tick(x_range.high));
  std::string axis = std::string(kMargin, ' ') + left;
  const auto room = static_cast<size_t>(columns + kMargin);
  if (axis.size() + legend.size() + right.size() + 6 <= room) axis += "   " + legend;
  const size_t used = display_columns(axis) + display_columns(right);
  axis += std::string(room > used ? room - used : 1, ' ') + right;
  lines.push_back(axis);
  return lines;
}

bool terminal_shows_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](char c) {
      return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    });
    return text.find("UTF-8") != std::string::npos || text.find("UTF8") != std::string::npos;
  }
  return false;
}

size_t display_columns(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace tril
