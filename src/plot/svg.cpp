#include "tril/plot/svg.h"

#include <fmt/format.h>

#include <array>

#include "tril/base/utf8.h"

namespace tril {
namespace {

// After Okabe and Ito, darkened where white paper needs it.
constexpr std::array<const char*, 7> kColors{
    "#0072b2", "#d55e00", "#008f68", "#a4418f", "#8a6d00", "#3a86c8", "#555555"};

#define TRIL_FIGURE_RULES                                                                        \
  "svg.figure{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}" \
  "svg.figure text{fill:var(--ink)}svg.figure .quiet{fill:var(--quiet)}"                         \
  "svg.figure .title{font-weight:600;font-size:14px}"                                            \
  "svg.figure .grid{stroke:var(--grid);stroke-width:1}"                                          \
  "svg.figure .reference{stroke:var(--quiet);stroke-width:1;stroke-dasharray:5 4}"               \
  "svg.figure .curve{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"     \
  "svg.figure .faint{stroke-width:1;opacity:.4}"

constexpr std::string_view kFigureRules = TRIL_FIGURE_RULES;

constexpr std::string_view kFigureStyle =
    "svg.figure{color-scheme:light "
    "dark;--ink:#1c2733;--quiet:#5b6875;--grid:#e3e8ee;--paper:#ffffff;"
    "--heat0:#eaf1f8;--heat1:#08306b;--line:#9aa7b4;--mark:#d55e00;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#008f68;--c3:#a4418f;--c4:#8a6d00;--c5:#3a86c8;--c6:#555555}"
    "@media (prefers-color-scheme:dark){svg.figure{--ink:#e6ebf0;--quiet:#9fabb8;--grid:#2b3540;"
    "--paper:#14191f;--heat0:#1d2731;--heat1:#bfe3ff;--line:#6b7a88;--mark:#ff9e5e;"
    "--c0:#56b4e9;--c1:#ff9e5e;--c2:#35d0a5;--c3:#e08ac8;--c4:#e8cf4a;--c5:#9cc9f5;--c6:#c4ccd4}"
    "}" TRIL_FIGURE_RULES;
#undef TRIL_FIGURE_RULES

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto code_point = decode_utf8(text);
    if (!code_point) {
      append_utf8(out, 0xFFFD);
      text.remove_prefix(1);
      continue;
    }
    const char32_t c = code_point->value;
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      append_utf8(out, c == 0x7F ? 0x2421 : 0x2400 + c);  // the pictures of control characters
    } else {
      out.append(text.substr(0, code_point->n_bytes));
    }
    text.remove_prefix(code_point->n_bytes);
  }
  return out;
}

std::string series_color(int number) {
  const auto i = static_cast<size_t>(number) % kColors.size();
  return fmt::format("var(--c{}, {})", i, kColors[i]);
}

std::string_view figure_rules() {
  return kFigureRules;
}

std::string_view figure_style() {
  return kFigureStyle;
}

}  // namespace tril
