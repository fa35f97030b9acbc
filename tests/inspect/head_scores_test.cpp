#include "tril/inspect/head_scores.h"

#include <cmath>

#include "support/catch.h"
#include "tril/inspect/attention_report.h"

using namespace tril;

namespace {

using Rows = std::vector<std::vector<float>>;

std::vector<float> flat(const Rows& rows) {
  std::vector<float> weights(rows.size() * rows.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j) weights[i * rows.size() + j] = rows[i][j];
  }
  return weights;
}

/// A map in which row i looks at target(i) alone.
template <typename F>
std::vector<float> pointing(size_t n, F target) {
  std::vector<float> weights(n * n, 0);
  for (size_t i = 0; i < n; ++i) weights[i * n + target(i)] = 1;
  return weights;
}

std::vector<int64_t> ids_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

TEST_CASE("the scores of a three-token map, by hand", "[inspect]") {
  // Rows 1 and 2 count. Entropy of (1/2, 1/2) is ln 2, of (1/4, 1/4, 1/2) it is 1.5 ln 2.
  const auto map = flat({{1}, {0.5, 0.5}, {0.25, 0.25, 0.5}});
  const HeadScores s = score_head(map, ids_of("abc"), 1);
  const double ln2 = std::log(2.0);
  CHECK(s.entropy == Approx((ln2 + 1.5 * ln2) / 2));
  CHECK(s.entropy_share == Approx((1 + 1.5 * ln2 / std::log(3.0)) / 2));
  CHECK(s.distance == Approx((0.5 + (0.25 * 2 + 0.25)) / 2));
  CHECK(s.first_token == Approx((0.5 + 0.25) / 2));
  CHECK(s.previous_token == Approx((0.5 + 0.25) / 2));
  CHECK(s.itself == Approx(0.5));
  CHECK(s.n_repeats == 0);
}

TEST_CASE("a head that copies is told from one that finds the earlier mention", "[inspect]") {
  // "abcXabcY": with a match of 2 the rows of the second b and the second c repeat.
  const auto ids = ids_of("abcXabcY");
  const auto copying = pointing(8, [](size_t i) { return i >= 5 && i <= 6 ? i - 3 : i; });
  const HeadScores induction = score_head(copying, ids, 2);
  CHECK(induction.n_repeats == 2);
  CHECK(induction.induction == Approx(1.0));  // row 5 (b) at 2 (c), row 6 (c) at 3 (X)
  CHECK(induction.earlier_mention == Approx(0.0));
  CHECK(induction.induction_by_chance == Approx((1.0 / 6 + 1.0 / 7) / 2));
  CHECK(induction.role == "induction");

  const auto finding = pointing(8, [](size_t i) { return i >= 5 && i <= 6 ? i - 4 : i; });
  const HeadScores mention = score_head(finding, ids, 2);
  CHECK(mention.induction == Approx(0.0));
  CHECK(mention.earlier_mention == Approx(1.0));
  CHECK(mention.role == "earlier mention");

  // With a match of 1 the second a counts too; with 4 nothing repeats.
  CHECK(score_head(copying, ids, 1).n_repeats == 3);
  CHECK(score_head(copying, ids, 4).n_repeats == 0);
}

TEST_CASE("a token's own neighbour is no earlier mention", "[inspect]") {
  // In "aaaa" the row of position 1 has only position 0 before it, whose next token is itself.
  const auto map = pointing(4, [](size_t i) { return i; });
  const HeadScores s = score_head(map, ids_of("aaaa"), 1);
  CHECK(s.n_repeats == 2);
  CHECK(s.induction == Approx(0.0));
}

TEST_CASE("every role has a head that plays it", "[inspect]") {
  const auto ids = ids_of("abcdefghijklmnopqrstuvwxyz");
  const size_t n = ids.size();
  CHECK(score_head(pointing(n, [](size_t i) { return i == 0 ? 0 : i - 1; }), ids, 1).role ==
        "previous token");
  CHECK(score_head(pointing(n, [](size_t) { return size_t{0}; }), ids, 1).role == "first token");
  CHECK(score_head(pointing(n, [](size_t i) { return i; }), ids, 1).role == "itself");
  CHECK(score_head(pointing(n, [](size_t i) { return i < 3 ? 0 : i - 3; }), ids, 1).role ==
        "local");
  CHECK(score_head(pointing(n, [](size_t i) { return i < 14 ? 1 : i - 13; }), ids, 1).role ==
        "mixed");
  Rows even;
  for (size_t i = 0; i < n; ++i) {
    even.emplace_back(i + 1, 1.0F / static_cast<float>(i + 1));
  }
  CHECK(score_head(flat(even), ids, 1).role == "broad");
  CHECK(default_match("char") == 3);
  CHECK(default_match("bpe") == 1);
}

TEST_CASE("scores of several texts are weighted by what they could be measured on", "[inspect]") {
  const HeadScores one{.distance = 2, .induction = 0.9, .induction_by_chance = 0.1, .n_repeats = 1};
  const HeadScores two{.distance = 4, .induction = 0.6, .induction_by_chance = 0.1, .n_repeats = 2};
  const HeadScores none{.distance = 6};
  const HeadScores mean = average_scores(std::vector<HeadScores>{one, two, none});
  CHECK(mean.distance == Approx(4));
  CHECK(mean.induction == Approx((0.9 + 2 * 0.6) / 3));
  CHECK(mean.induction_by_chance == Approx(0.1));
  CHECK(mean.n_repeats == 3);
  CHECK(mean.role == "induction");
  CHECK(average_scores(std::vector<HeadScores>{none}).n_repeats == 0);
}

TEST_CASE("a map of one token has no scores and is no error", "[inspect]") {
  const HeadScores s = score_head(std::vector<float>{1}, ids_of("a"), 1);
  CHECK(s.entropy == 0);
  CHECK(s.n_repeats == 0);
}

namespace {

AttentionReport small_report() {
  AttentionReport report;
  report.run = "runs/<x>";
  report.step = 7;
  report.n_blocks = 1;
  report.n_head = 2;
  report.tokens = {"a", "\n", "\xF0\x9F", ",", "\""};
  report.ids = {0, 1, 2, 3, 4};
  for (int64_t h = 0; h < 2; ++h) {
    ReportedHead head{.block = 0, .head = h, .weights = {}, .scores = {}};
    head.weights = pointing(5, [&](size_t i) { return h == 0 ? i : (i == 0 ? i : i - 1); });
    head.scores = score_head(head.weights, report.ids, 1);
    report.heads.push_back(head);
  }
  return report;
}

}  // namespace

TEST_CASE("attention as JSON is valid whatever bytes a token holds", "[inspect]") {
  const OrderedJson json = attention_json(small_report());
  const Json parsed = Json::parse(dump_json(json));
  CHECK(parsed.at("tokens")[2].at("text") == "\\xf0\\x9f");
  CHECK(parsed.at("tokens")[1].at("text") == "\\n");
  CHECK(parsed.at("heads").size() == 2);
  for (size_t i = 0; i < 5; ++i) CHECK(parsed.at("heads")[0].at("weights")[i].size() == i + 1);
  CHECK(parsed.at("heads")[1].at("role") == "previous token");
}

TEST_CASE("attention as CSV has one line per pair that the mask allows", "[inspect]") {
  const std::string csv = attention_csv(small_report());
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 2 * 15);
  CHECK_THAT(csv, ContainsSubstring("\n0,1,3,2,\",\",\\xf0\\x9f,1\n"));
  CHECK_THAT(csv, ContainsSubstring("\"\"\"\""));
}

TEST_CASE("attention as SVG leaves the future white", "[inspect]") {
  AttentionReport report = small_report();
  CHECK_THAT(attention_svg(report), ContainsSubstring("block 0 head 1: previous token"));
  report.heads.erase(report.heads.begin());
  const std::string svg = attention_svg(report);
  // The stairs of the allowed triangle, and nothing drawn above them.
  CHECK_THAT(svg, ContainsSubstring("M0 0H1V1H2V2H3V3H4V4H5V5H0z"));
  CHECK_THAT(svg, ContainsSubstring("M0 0h1v1h-1zM0 1h1v1h-1zM1 2h1v1h-1z"));
}

TEST_CASE("attention as SVG keeps the space before a word", "[inspect]") {
  AttentionReport report = small_report();
  report.heads.erase(report.heads.begin());
  const auto x_of = [&](const std::string& token) {
    report.tokens[1] = token;
    const std::string svg = attention_svg(report);
    const auto text = svg.find(">bc</text>");  // of the text: the map's labels come later
    REQUIRE(text != std::string::npos);
    return std::stod(svg.substr(svg.rfind("x=\"", text) + 3));
  };
  CHECK(x_of("  bc") - x_of("bc") == Approx(2 * (x_of(" bc") - x_of("bc"))).margin(0.2));
  CHECK(x_of(" bc") > x_of("bc") + 5);
}

TEST_CASE("attention in a terminal fits its columns", "[inspect]") {
  const AttentionReport report = small_report();
  const std::string table = attention_table(report);
  CHECK_THAT(table, ContainsSubstring("previous token") && ContainsSubstring("itself"));
  const std::string map = attention_text_map(report, report.heads[1], 80, /*unicode=*/false);
  CHECK_THAT(map, ContainsSubstring("    0        a @\n") || ContainsSubstring(" a @\n"));
  CHECK_THAT(attention_text_map(report, report.heads[1], 12, false),
             ContainsSubstring("of 5 tokens"));
}
