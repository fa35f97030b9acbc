#pragma once
// A line chart out of characters, for a terminal.

#include <string>
#include <vector>

namespace tril {

struct TerminalChart {
  struct Series {
    std::string name;
    std::vector<double> x, y;  ///< points that are not finite are left out
    char mark = '*';           ///< without Unicode
    bool points = false;       ///< marks at the points only; else joined
  };
  std::vector<Series> series;
  std::string x_label;
  int width = 72;       ///< columns in all, at least 30
  int height = 8;       ///< rows of the drawing
  bool unicode = true;  ///< braille dots; else ASCII
};

/// The lines from top to bottom, without line ends, each at most `width` columns. Nothing when
/// there is no point to draw.
std::vector<std::string> render_terminal_chart(const TerminalChart& chart);

/// Does the user's locale say that the terminal shows UTF-8? (LC_ALL, LC_CTYPE, LANG)
bool terminal_shows_utf8();

/// How many columns a text takes: its characters.
size_t display_columns(const std::string& text);

}  // namespace tril
