// The page of tril inspect attention.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tril/inspect/attention_report.h"
#include "tril/plot/base64.h"
#include "tril/plot/page.h"
#include "tril/plot/svg.h"

namespace tril {
namespace {

constexpr std::string_view kAttentionStyle =
#include "attention_page.css"
    ;
constexpr std::string_view kAttentionScript =
#include "attention_page.js"
    ;

/// The allowed triangle, row by row, as 16-bit numbers (65535: all of the weight), low byte first.
std::string packed_triangle(const std::vector<float>& weights, size_t n) {
  std::string bytes;
  bytes.reserve(n * (n + 1));
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      const float w = std::clamp(weights[i * n + j], 0.0F, 1.0F);
      const auto level = static_cast<unsigned>(std::lround(w * 65535.0F));
      bytes += static_cast<char>(level & 0xFF);
      bytes += static_cast<char>(level >> 8);
    }
  }
  return base64(bytes);
}

double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

}  // namespace

int64_t attention_page_bytes(size_t n_tokens, size_t n_heads) {
  return static_cast<int64_t>(n_heads * n_tokens * (n_tokens + 1) / 3 * 4 + 40'000);
}

std::string attention_page(const AttentionReport& report) {
  OrderedJson data;
  data["tokens"] = OrderedJson::array();
  for (const auto& token : report.tokens) data["tokens"].push_back(visible_token(token));
  data["ids"] = report.ids;
  data["heads"] = OrderedJson::array();
  const auto& telling = most_telling_head(report);
  for (const auto& head : report.heads) {
    const HeadScores& s = head.scores;
    if (&head == &telling) data["first"] = data["heads"].size();
    data["heads"].push_back(
        {{"block", head.block},
         {"head", head.head},
         {"role", s.role},
         {"induction", s.n_repeats > 0 ? OrderedJson(rounded(s.induction)) : OrderedJson()},
         {"chance", s.n_repeats > 0 ? OrderedJson(rounded(s.induction_by_chance)) : OrderedJson()},
         {"mention", s.n_repeats > 0 ? OrderedJson(rounded(s.earlier_mention)) : OrderedJson()},
         {"previous", rounded(s.previous_token)},
         {"start", rounded(s.first_token)},
         {"itself", rounded(s.itself)},
         {"distance", rounded(s.distance)},
         {"entropy", rounded(s.entropy)},
         {"share", rounded(s.entropy_share)},
         {"w", packed_triangle(head.weights, report.ids.size())}});
  }
  data["row"] = telling_row(report, telling);

  Page page;
  page.title = fmt::format("Attention of {}", report.run);
  page.style = kAttentionStyle;
  const std::string script = std::string(chart_script()) + std::string(kAttentionScript);
  page.script = script;
  page.data = std::move(data);
  page.body = fmt::format(
      R"html(<header><h1>What the heads of {run} look at</h1>
<p class="quiet">Step {step}; {n} tokens; {heads} heads. Computed head by head with the plain modules; the fused path that trains and generates differs by at most {difference:.1g} of the largest output.</p></header>
<main>
<section class="look">
<div class="left">
<h2 id="name">&nbsp;</h2>
<p class="quiet" id="role"></p>
<div id="strip" class="mono" tabindex="0" role="listbox" aria-label="The text. Arrow keys choose the token that looks."></div>
<p id="says" aria-live="polite">&nbsp;</p>
<div id="map-box"><canvas id="map" tabindex="0" role="img" aria-label="Attention map of the chosen head. Arrow keys move over it."></canvas><div class="tip" id="tip" hidden></div></div>
<div class="legend"><span>0</span><canvas id="scale" width="180" height="12"></canvas><span>100 % of a row (shade by square root)</span><span class="swatch"></span><span>masked: the future</span></div>
<p class="quiet">A row is a token that looks (query), a column one that is looked at (key). Each row adds up to 100 %.</p>
</div>
<div class="right">
<h2>Heads</h2>
<div id="grid" style="--columns:{columns}"></div>
<h2>What they do</h2>
<p class="quiet">Means over {texts}. Repeats are places where the last {match_text} occurred before. Click a column to sort, a row to look.</p>
<div class="scroll"><table id="table"><thead></thead><tbody></tbody></table></div>
</div>
</section>
</main>
<footer>Made by tril inspect attention. One file, no network.</footer>)html",
      fmt::arg("run", escape_markup(report.run)),
      fmt::arg("step", report.step),
      fmt::arg("n", report.ids.size()),
      fmt::arg("heads", report.heads.size()),
      fmt::arg("difference", report.path_difference),
      fmt::arg("columns",
               std::min<int64_t>(report.n_head, static_cast<int64_t>(report.heads.size()))),
      fmt::arg("texts",
               report.n_texts == 1 ? std::string("the tokens of this text")
                                   : fmt::format("{} texts, this one first", report.n_texts)),
      fmt::arg("match_text",
               report.match == 1 ? std::string("token") : fmt::format("{} tokens", report.match)));
  return render_page(page);
}

}  // namespace tril
