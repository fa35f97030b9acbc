#include "tril/inspect/token_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tril/inspect/attention_report.h"
#include "tril/plot/page.h"
#include "tril/plot/svg.h"

namespace tril {
namespace {

constexpr size_t kMostSurprising = 12;

constexpr std::string_view kTokenStyle =
#include "token_page.css"
    ;
constexpr std::string_view kTokenScript =
#include "token_page.js"
    ;

/// The predicted tokens, the most surprising first.
std::vector<size_t> by_surprise(const TokenReport& report) {
  std::vector<size_t> order;
  for (size_t i = 1; i < report.tokens.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return report.tokens[a].loss > report.tokens[b].loss;
  });
  if (order.size() > kMostSurprising) order.resize(kMostSurprising);
  return order;
}

/// 256-colour backgrounds of a terminal, from little surprise to much.
constexpr std::array<int, 5> kHeat{-1, 230, 222, 215, 209};

int heat_of(double loss) {
  static constexpr std::array<double, 4> kSteps{0.5, 1.5, 3.0, 5.0};
  const auto* step = std::upper_bound(kSteps.begin(), kSteps.end(), loss);
  return kHeat[static_cast<size_t>(step - kSteps.begin())];
}

std::string context_before(const TokenReport& report, size_t i) {
  std::string text;
  for (size_t k = i >= 24 ? i - 24 : 0; k < i; ++k) text += visible_token(report.tokens[k].text);
  return text;
}

}  // namespace

double TokenReport::mean_loss() const {
  double sum = 0;
  for (size_t i = 1; i < tokens.size(); ++i) sum += tokens[i].loss;
  return sum / static_cast<double>(tokens.size() - 1);
}

OrderedJson token_json(const TokenReport& report) {
  OrderedJson json;
  json["run"] = report.run;
  json["step"] = report.step;
  json["loss"] = report.mean_loss();
  json["tokens"] = OrderedJson::array();
  for (size_t i = 0; i < report.tokens.size(); ++i) {
    const auto& token = report.tokens[i];
    OrderedJson entry{{"id", token.id}, {"text", visible_token(token.text)}};
    if (i > 0) {
      entry["loss"] = token.loss;
      entry["probability"] = std::exp(-token.loss);
      entry["rank"] = token.rank;
      entry["expected"] = OrderedJson::array();
      for (const auto& guess : token.guesses) {
        entry["expected"].push_back(
            {{"text", visible_token(guess.text)}, {"probability", guess.probability}});
      }
    }
    json["tokens"].push_back(std::move(entry));
  }
  return json;
}

std::string token_csv(const TokenReport& report) {
  std::string out = "position,id,text,loss,probability,rank\n";
  for (size_t i = 0; i < report.tokens.size(); ++i) {
    const auto& token = report.tokens[i];
    std::string text = visible_token(token.text);
    if (text.find_first_of(",\"") != std::string::npos) {
      std::string quoted = "\"";
      for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
      text = quoted + "\"";
    }
    out += i == 0 ? fmt::format("{},{},{},,,\n", i, token.id, text)
                  : fmt::format("{},{},{},{},{},{}\n",
                                i,
                                token.id,
                                text,
                                token.loss,
                                std::exp(-token.loss),
                                token.rank);
  }
  return out;
}

std::string token_text(const TokenReport& report, bool color) {
  std::string out;
  if (color) {
    for (size_t i = 0; i < report.tokens.size(); ++i) {
      const auto& token = report.tokens[i];
      const bool is_newline = token.text == "\n";
      const std::string shown = is_newline ? "\u21b5" : visible_token(token.text);
      const int heat = i == 0 ? -1 : heat_of(token.loss);
      out += heat < 0 ? shown : fmt::format("\033[48;5;{};38;5;16m{}\033[0m", heat, shown);
      if (is_newline) out += '\n';
    }
    out += "\n\n";
  }
  out += fmt::format("loss {:.4f} nats per token, perplexity {:.2f}, {} tokens predicted\n\n",
                     report.mean_loss(),
                     std::exp(report.mean_loss()),
                     report.tokens.size() - 1);
  out += "most surprising:\n    loss  probability  token  after\n";
  for (const size_t i : by_surprise(report)) {
    const auto& token = report.tokens[i];
    out += fmt::format("{:>8.2f}  {:>11.4g}  {:>5}  \u2026{}   expected '{}' ({:.0f} %)\n",
                       token.loss,
                       std::exp(-token.loss),
                       visible_token(token.text) == " " ? "' '" : visible_token(token.text),
                       context_before(report, i),
                       visible_token(token.guesses.front().text),
                       100 * token.guesses.front().probability);
  }
  return out;
}

std::string token_page(const TokenReport& report) {
  OrderedJson data;
  data["tokens"] = OrderedJson::array();
  for (size_t i = 0; i < report.tokens.size(); ++i) {
    const auto& token = report.tokens[i];
    OrderedJson expected = OrderedJson::array();
    for (const auto& guess : token.guesses) {
      expected.push_back({visible_token(guess.text), std::round(guess.probability * 1e4) / 1e4});
    }
    data["tokens"].push_back(
        {visible_token(token.text),
         i == 0 ? OrderedJson() : OrderedJson(std::round(token.loss * 1e4) / 1e4),
         token.rank,
         std::move(expected)});
  }
  data["uniform"] = std::log(static_cast<double>(report.vocab_size));

  Page page;
  page.title = fmt::format("Surprise of {}", report.run);
  page.style = kTokenStyle;
  const std::string script = std::string(chart_script()) + std::string(kTokenScript);
  page.script = script;
  page.data = std::move(data);
  page.body = fmt::format(
      R"html(<header><h1>Where {} is surprised</h1>
<p class="quiet">Step {}; {} tokens predicted, each from those before it; loss {:.4f} nats per token, perplexity {:.2f}.</p></header>
<main>
<div class="legend"><span>expected</span><span class="ramp"></span><span>surprising (5 nats and more)</span></div>
<div class="look"><div id="text" class="mono" tabindex="0" role="listbox" aria-label="The text, shaded by loss. Arrow keys read it."></div>
<aside id="panel" aria-live="polite"><p class="quiet">Point at a token, or use the arrow keys.</p></aside></div>
<figure class="chart" id="along"></figure>
<h2>The most surprising tokens</h2>
<div class="scroll"><table id="worst"><thead><tr><th class="text">token</th><th class="text">after</th><th>loss, nats</th><th>probability</th><th>rank</th><th class="text">expected</th></tr></thead><tbody></tbody></table></div>
</main>
<footer>Made by tril inspect tokens. One file, no network.</footer>)html",
      escape_markup(report.run),
      report.step,
      report.tokens.size() - 1,
      report.mean_loss(),
      std::exp(report.mean_loss()));
  return render_page(page);
}

}  // namespace tril
