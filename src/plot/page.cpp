#include "tril/plot/page.h"

#include <fmt/format.h>

#include "tril/plot/svg.h"

namespace tril {
namespace {

constexpr std::string_view kPageStyle =
#include "page.css"
    ;

constexpr std::string_view kChartScript =
#include "chart.js"
    ;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string json_for_script(const OrderedJson& json) {
  std::string text = dump_json(json, /*indent=*/-1);
  replace_all(text, "<", "\\u003c");  // inside JSON, '<' stands in strings only
  replace_all(text, "\u2028", "\\u2028");
  replace_all(text, "\u2029", "\\u2029");
  return text;
}

std::string render_page(const Page& page) {
  std::string out = fmt::format(
      R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:{}">
<link rel="icon" href="data:,">
<title>{}</title>
<style>
{}{}
{}
</style>
</head>
<body>
{}
)html",
      page.live ? "; connect-src 'self'" : "",
      escape_markup(page.title),
      kPageStyle,
      figure_rules(),
      page.style,
      page.body);
  if (!page.data.is_null()) {
    out += "<script>const DATA = " + json_for_script(page.data) + ";</script>\n";
  }
  if (!page.script.empty()) {
    out += "<script>\n";
    out += page.script;
    out += "</script>\n";
  }
  return out + "</body>\n</html>\n";
}

std::string_view chart_script() {
  return kChartScript;
}

}  // namespace tril
