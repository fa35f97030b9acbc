#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"
#include "tril/plot/base64.h"
#include "tril/plot/page.h"
#include "tril/plot/svg.h"
#include "tril/plot/svg_plot.h"
#include "tril/plot/terminal_chart.h"
#include "tril/plot/ticks.h"

using namespace tril;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("ticks are round numbers inside the range", "[plot]") {
  CHECK(linear_ticks({0, 10}, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(linear_ticks({0.9, 4.2}, 6).front() == Approx(1.0));
  CHECK(log_ticks({1, 1000}, 6) == std::vector<double>{1, 10, 100, 1000});
  CHECK(log_ticks({1, 100}, 6) == std::vector<double>{1, 2, 5, 10, 20, 50, 100});
  CHECK(log_ticks({1e-12, 1e12}, 6).size() <= 8);
}

TEST_CASE("ranges are never empty and leave out what cannot be drawn", "[plot]") {
  const auto check = [](AxisRange range) {
    CHECK(range.low < range.high);
    CHECK(std::isfinite(range.high - range.low));
  };
  check(range_of({}));
  check(range_of({}, true));
  check(range_of({3, 3, 3}));
  check(range_of({0}));
  check(range_of({kNaN, -1, std::numeric_limits<double>::infinity()}));
  CHECK(range_of({-5, 0, 2, 8}, true).low == 2);
}

TEST_CASE("numbers on an axis are short", "[plot]") {
  CHECK(format_tick(0) == "0");
  CHECK(format_tick(0.25, 0.05) == "0.25");
  CHECK(format_tick(1.5, 0.5) == "1.5");
  CHECK(format_tick(2, 0.5) == "2");
  CHECK(format_tick(5000, 1000) == "5000");
  CHECK(format_tick(12500, 500) == "12.5k");
  CHECK(format_tick(2e6, 1e6) == "2M");
  CHECK(format_tick(3e-4) == "3e-4");
}

TEST_CASE("text of a run cannot become markup", "[plot]") {
  CHECK(escape_markup("<b a=\"1\">&'") == "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
  CHECK(escape_markup("a\xFFz") == "a\uFFFDz");
  CHECK(escape_markup(std::string("\x1b[31m", 5)) == "\u241b[31m");
  const OrderedJson json = {{"text", "</script><!-- \xFF \u2028"}};
  const std::string text = json_for_script(json);
  CHECK(text.find('<') == std::string::npos);
  CHECK(Json::parse(text).at("text") == "</script><!-- \uFFFD \u2028");
}

TEST_CASE("a page forbids every request over the network", "[plot]") {
  Page page{.title = "a<b", .body = "<p>x</p>"};
  page.data = {{"k", 1}};
  const std::string html = render_page(page);
  CHECK_THAT(html, ContainsSubstring("default-src 'none'"));
  CHECK(html.find("connect-src") == std::string::npos);
  CHECK_THAT(html, ContainsSubstring("<title>a&lt;b</title>"));
  CHECK(html.find("http://") == std::string::npos);
  CHECK(html.find("https://") == std::string::npos);
  page.live = true;
  CHECK_THAT(render_page(page), ContainsSubstring("connect-src 'self'"));
}

TEST_CASE("base64 agrees with the examples of RFC 4648", "[plot]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe") == "//4=");
}

TEST_CASE("the name of a line near the bottom stands below it", "[plot]") {
  SvgPlot plot{.title = "Loss", .x_label = "step", .y_label = "nats"};
  plot.series = {{.name = "train", .x = {1, 2, 3}, .y = {4, 1, 0.6}}};
  plot.references = {{"guess", 4.1}, {"floor", 0.5}};
  const std::string svg = render_svg(plot);
  const auto y_before = [&](const std::string& what) {
    const auto at = svg.rfind("y=\"", svg.find(what));
    return std::stod(svg.substr(at + 3));
  };
  const auto line_of = [&](const std::string& name) {
    const auto at = svg.rfind("y1=\"", svg.find(name));
    return std::stod(svg.substr(at + 4));
  };
  CHECK(y_before(">guess<") < line_of(">guess<"));
  CHECK(y_before(">floor<") > line_of(">floor<"));
}

TEST_CASE("a figure draws what is finite and names its curves", "[plot]") {
  SvgPlot plot{.title = "Loss <1>", .x_label = "step", .y_label = "nats"};
  plot.series = {
      {.name = "train", .x = {1, 2, 3, 4}, .y = {4, kNaN, 2, 1}},
      {.name = "check", .x = {1, 4}, .y = {3, 2}, .color = 1, .kind = PlotSeries::Kind::kDots}};
  plot.references = {{"ln V", 4.1}};
  const std::string svg = render_svg(plot);
  CHECK_THAT(svg, ContainsSubstring("Loss &lt;1&gt;") && ContainsSubstring(">train</text>"));
  CHECK_THAT(svg,
             ContainsSubstring(">ln V</text>") && ContainsSubstring("prefers-color-scheme:dark"));
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(count_of(svg, "<circle") == 2);
  // The gap at the NaN lifts the pen: two strokes of one path.
  const auto path = svg.substr(svg.find(" d=\"M"), 60);
  CHECK(count_of(path, "M") == 2);

  plot.log_y = true;
  plot.series[0].y = {0, -1, 10, 100};
  CHECK(render_svg(plot).find("nan") == std::string::npos);
  CHECK_THAT(render_svg({.title = "empty"}), ContainsSubstring("</svg>"));
}

TEST_CASE("thinning keeps the ends, the spikes and the order", "[plot]") {
  std::vector<double> values(10000, 1.0);
  values[5432] = 99;
  values[7000] = -3;
  const auto kept = kept_points(values, 200);
  CHECK(kept.size() <= 200);
  CHECK(kept.front() == 0);
  CHECK(kept.back() == 9999);
  CHECK(std::is_sorted(kept.begin(), kept.end()));
  CHECK(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
  CHECK(std::count(kept.begin(), kept.end(), 5432U) == 1);
  CHECK(std::count(kept.begin(), kept.end(), 7000U) == 1);
  CHECK(kept_points({1, 2, 3}, 200) == std::vector<size_t>{0, 1, 2});
}

TEST_CASE("a terminal chart falls where the loss falls, in the width it is given", "[plot]") {
  TerminalChart chart;
  chart.series = {{.name = "loss", .x = {0, 50, 100}, .y = {4, 2, 1}}};
  chart.x_label = "step";
  chart.width = 60;
  chart.height = 6;
  for (const bool unicode : {true, false}) {
    chart.unicode = unicode;
    const auto lines = render_terminal_chart(chart);
    REQUIRE(lines.size() == 7);
    for (const auto& line : lines) CHECK(display_columns(line) <= 60);
    CHECK_THAT(lines.front(), ContainsSubstring("4"));
    CHECK_THAT(lines[5], ContainsSubstring("1"));
    CHECK_THAT(lines.back(), ContainsSubstring("loss") && ContainsSubstring("step 100"));
    // The top row is drawn at the left only, the bottom row at the right only.
    CHECK(display_columns(lines.front()) < 25);
    CHECK(display_columns(lines[5]) == 60);
    if (!unicode) {
      for (const auto& line : lines) {
        CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20; }));
      }
    }
  }
  CHECK(render_terminal_chart({}).empty());
  chart.series = {{.name = "", .x = {1, 2}, .y = {kNaN, kNaN}}};
  CHECK(render_terminal_chart(chart).empty());
}
