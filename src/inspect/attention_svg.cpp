// Attention maps as SVG. One map comes large, with the text above it as one token sees it.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tril/inspect/attention_report.h"
#include "tril/plot/svg.h"

namespace tril {
namespace {

constexpr double kMargin = 16;
constexpr int kLevels = 20;            ///< shades of a large map
constexpr int kFewLevels = 8;          ///< of a small one, to keep the file small
constexpr double kLetterWidth = 10.2;  ///< of the text above a map, 17 px monospace
constexpr double kLineHeight = 26;

template <typename... Args>
void add(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

/// Shade of a weight: 0 … n_levels, by its square root, so that small weights show too.
int level_of(float weight, int n_levels) {
  const double root = std::sqrt(std::max(0.0F, weight));
  return static_cast<int>(std::lround(root * n_levels));
}

/// One map with its corner at (x, y), `size` pixels wide. The mask is what stays white.
void draw_map(std::string& out,
              const ReportedHead& head,
              size_t n,
              double x,
              double y,
              double size,
              int n_levels) {
  const double cell = size / static_cast<double>(n);
  add(out,
      R"svg(<g transform="translate({:.1f} {:.1f}) scale({:.4f})" shape-rendering="crispEdges">)svg",
      x,
      y,
      cell);
  std::string steps = "M0 0";  // the allowed triangle, stair by stair
  for (size_t i = 0; i < n; ++i) add(steps, "H{}V{}", i + 1, i + 1);
  add(out, R"svg(<path d="{}H0z" fill="var(--heat0)"/><g fill="var(--heat1)">)svg", steps);
  std::vector<std::string> paths(static_cast<size_t>(n_levels) + 1);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0, end; j <= i; j = end) {  // neighbours of one shade are one rectangle
      const int level = level_of(head.weights[i * n + j], n_levels);
      end = j + 1;
      while (end <= i && level_of(head.weights[i * n + end], n_levels) == level) ++end;
      if (level > n_levels / kLevels) {  // the faintest shade of many is not seen
        add(paths[static_cast<size_t>(level)], "M{} {}h{}v1h-{}z", j, i, end - j, end - j);
      }
    }
  }
  for (int level = 1; level <= n_levels; ++level) {
    const auto& path = paths[static_cast<size_t>(level)];
    if (path.empty()) continue;
    add(out,
        R"svg(<path opacity="{:.2f}" d="{}"/>)svg",
        static_cast<double>(level) / n_levels,
        path);
  }
  out += "</g></g>";
}

std::string label_of(const std::string& token) {
  const std::string text = visible_token(token);
  if (text == " ") return "\u2423";
  return text == "\\n" ? "\u21b5" : text;
}

/// The text, each token shaded by how much row `query` looks at it. Returns its height.
double draw_text(std::string& out,
                 const AttentionReport& report,
                 const ReportedHead& head,
                 size_t query,
                 double y,
                 double width) {
  const size_t n = report.ids.size();
  const auto per_line = static_cast<size_t>((width - 2 * kMargin) / kLetterWidth);
  size_t column = 0;
  size_t line = 0;
  out +=
      R"svg(<g font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="17">)svg";
  for (size_t i = 0; i < n; ++i) {
    const std::string label = report.tokens[i] == " " ? " " : label_of(report.tokens[i]);
    size_t letters = 0;
    for (const char c : label) letters += (c & 0xC0) != 0x80 ? 1U : 0U;
    if (column + letters > per_line) {
      column = 0;
      ++line;
    }
    const double left = kMargin + static_cast<double>(column) * kLetterWidth;
    const double top = y + static_cast<double>(line) * kLineHeight;
    const double w = kLetterWidth * static_cast<double>(letters);
    const double level = i <= query ? std::sqrt(std::max(0.0F, head.weights[query * n + i])) : 0;
    if (level > 0.05) {
      add(out,
          R"svg(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="22" fill="var(--heat1)" opacity="{:.2f}"/>)svg",
          left,
          top,
          w,
          level);
    }
    if (i == query) {
      add(out,
          R"svg(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="24" rx="2" fill="none" stroke="var(--mark)" stroke-width="2"/>)svg",
          left - 1,
          top - 1,
          w + 2);
    }
    // SVG drops spaces at the beginning of a text.
    const size_t n_spaces = label.find_first_not_of(' ');
    if (n_spaces != std::string::npos) {
      const char* color = level > 0.6 ? "var(--paper)" : (i > query ? "var(--line)" : "var(--ink)");
      add(out,
          R"svg(<text x="{:.1f}" y="{:.1f}" style="fill:{}">{}</text>)svg",
          left + kLetterWidth * static_cast<double>(n_spaces),
          top + 17,
          color,
          escape_markup(label.substr(n_spaces)));
    }
    column += letters;
    if (report.tokens[i].find('\n') != std::string::npos) {
      column = 0;
      ++line;
    }
  }
  out += "</g>";
  return static_cast<double>(line + 1) * kLineHeight;
}

void draw_labels(std::string& out, const AttentionReport& report, double x, double y, double cell) {
  if (cell < 8) return;
  const double size = std::min(12.0, cell);
  for (size_t i = 0; i < report.ids.size(); ++i) {
    const std::string label = escape_markup(label_of(report.tokens[i]));
    const double middle = (static_cast<double>(i) + 0.5) * cell;
    add(out,
        R"svg(<text x="{:.1f}" y="{:.1f}" text-anchor="end" style="font-size:{:.1f}px">{}</text>)svg",
        x - 4,
        y + middle + size * 0.35,
        size,
        label);
    add(out,
        R"svg(<text transform="translate({:.1f} {:.1f}) rotate(-90)" style="font-size:{:.1f}px">{}</text>)svg",
        x + middle + size * 0.35,
        y - 5,
        size,
        label);
  }
}

std::string score_line(const HeadScores& s) {
  if (s.n_repeats == 0) return fmt::format("mean distance {:.1f} tokens", s.distance);
  return fmt::format(
      "at {} repeats: {:.0f} % on what came next the last time (by chance {:.0f} %), {:.0f} % on "
      "the earlier mention itself",
      s.n_repeats,
      100 * s.induction,
      100 * s.induction_by_chance,
      100 * s.earlier_mention);
}

std::string one_head(const AttentionReport& report, const ReportedHead& head) {
  const size_t n = report.ids.size();
  size_t longest = 1;
  for (const auto& token : report.tokens) longest = std::max(longest, label_of(token).size());
  const double map = 640;
  const double cell = map / static_cast<double>(n);
  const double labels = cell < 8 ? 0 : 7.0 * static_cast<double>(std::min<size_t>(longest, 14)) + 8;
  const double width = map + labels + 2 * kMargin;

  const size_t query = telling_row(report, head);
  std::string body;
  add(body,
      R"svg(<text class="title" x="{:.0f}" y="24">block {}, head {}: {}</text>)svg",
      kMargin,
      head.block,
      head.head,
      escape_markup(head.scores.role));
  add(body,
      R"svg(<text class="quiet" x="{:.0f}" y="43">{}</text>)svg",
      kMargin,
      escape_markup(score_line(head.scores)));
  add(body,
      R"svg(<text class="quiet" x="{:.0f}" y="68">What token {}, framed, looks at (darker: more):</text>)svg",
      kMargin,
      query);
  double y = 78;
  y += draw_text(body, report, head, query, y, width) + 34;
  add(body,
      R"svg(<text class="quiet" x="{:.0f}" y="{:.0f}">Every token: a row looks, a column is looked at; above the diagonal the mask, the future.</text>)svg",
      kMargin,
      y - 12);
  y += labels;
  draw_labels(body, report, kMargin + labels, y, cell);
  draw_map(body, head, n, kMargin + labels, y, map, kLevels);
  const double height = y + map + kMargin;
  return fmt::format(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="block {} head {}: {}"><style>{}</style><rect width="100%" height="100%" fill="var(--paper)"/>{}</svg>
)svg",
      width,
      height,
      head.block,
      head.head,
      escape_markup(head.scores.role),
      figure_style(),
      body);
}

}  // namespace

std::string attention_svg(const AttentionReport& report) {
  if (report.heads.size() == 1) return one_head(report, report.heads.front());
  constexpr double kMap = 180;
  constexpr double kGap = 22;
  const auto columns = static_cast<size_t>(std::max<int64_t>(
      1, std::min<int64_t>(report.n_head, static_cast<int64_t>(report.heads.size()))));
  const size_t rows = (report.heads.size() + columns - 1) / columns;
  const double width = 2 * kMargin + static_cast<double>(columns) * (kMap + kGap) - kGap;
  const double height = 44 + static_cast<double>(rows) * (kMap + kGap + 20);
  std::string out = fmt::format(
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="attention of {} heads"><style>{}</style><rect width="100%" height="100%" fill="var(--paper)"/>)svg",
      width,
      height,
      report.heads.size(),
      figure_style());
  add(out,
      R"svg(<text class="title" x="{:.0f}" y="24">{} heads on {} tokens: a row looks, a column is looked at</text>)svg",
      kMargin,
      report.heads.size(),
      report.ids.size());
  for (size_t k = 0; k < report.heads.size(); ++k) {
    const auto& head = report.heads[k];
    const double x = kMargin + static_cast<double>(k % columns) * (kMap + kGap);
    const double y = 64 + static_cast<double>(k / columns) * (kMap + kGap + 20);
    add(out,
        R"svg(<text class="quiet" x="{:.1f}" y="{:.1f}">block {} head {}: {}</text>)svg",
        x,
        y - 7,
        head.block,
        head.head,
        escape_markup(head.scores.role));
    draw_map(out, head, report.ids.size(), x, y, kMap, kFewLevels);
  }
  return out + "</svg>\n";
}

}  // namespace tril
