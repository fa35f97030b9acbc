#include "tril/inspect/attention_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tril/base/utf8.h"

namespace tril {
namespace {

/// Shades of a text map, by the square root of the weight: small weights show too.
constexpr std::array<const char*, 6> kShades{" ", "\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
constexpr std::array<const char*, 6> kAsciiShades{" ", ".", ":", "+", "#", "@"};

/// Less than this above chance tells nothing about a head.
constexpr double kLeastGain = 0.02;

std::string quoted_csv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

double above_chance(const HeadScores& s) {
  if (s.n_repeats == 0) return 0;
  const double gain =
      std::max(s.induction - s.induction_by_chance, s.earlier_mention - s.mention_by_chance);
  return gain > kLeastGain ? gain : 0;
}

}  // namespace

std::string visible_token(std::string_view bytes) {
  if (find_invalid_utf8(bytes)) {
    std::string out;
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      const bool plain = byte >= 0x20 && byte < 0x7F;
      out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
    }
    return out;
  }
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

OrderedJson attention_json(const AttentionReport& report) {
  OrderedJson json;
  json["run"] = report.run;
  json["step"] = report.step;
  json["tokens"] = OrderedJson::array();
  for (size_t i = 0; i < report.ids.size(); ++i) {
    json["tokens"].push_back({{"id", report.ids[i]}, {"text", visible_token(report.tokens[i])}});
  }
  json["match"] = report.match;
  json["texts"] = report.n_texts;
  json["path_difference"] = report.path_difference;
  json["heads"] = OrderedJson::array();
  const size_t n = report.ids.size();
  for (const auto& head : report.heads) {
    const HeadScores& s = head.scores;
    OrderedJson weights = OrderedJson::array();
    for (size_t i = 0; i < n; ++i) {
      const auto row = head.weights.begin() + static_cast<ptrdiff_t>(i * n);
      weights.push_back(std::vector<float>(row, row + static_cast<ptrdiff_t>(i + 1)));
    }
    json["heads"].push_back({{"block", head.block},
                             {"head", head.head},
                             {"role", s.role},
                             {"entropy", s.entropy},
                             {"entropy_share", s.entropy_share},
                             {"distance", s.distance},
                             {"first_token", s.first_token},
                             {"previous_token", s.previous_token},
                             {"itself", s.itself},
                             {"induction", s.induction},
                             {"induction_by_chance", s.induction_by_chance},
                             {"earlier_mention", s.earlier_mention},
                             {"mention_by_chance", s.mention_by_chance},
                             {"repeats", s.n_repeats},
                             {"weights", std::move(weights)}});
  }
  return json;
}

std::string attention_csv(const AttentionReport& report) {
  std::string out = "block,head,query,key,query_token,key_token,weight\n";
  const size_t n = report.ids.size();
  std::vector<std::string> tokens;
  for (const auto& token : report.tokens) tokens.push_back(quoted_csv(visible_token(token)));
  for (const auto& head : report.heads) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        fmt::format_to(std::back_inserter(out),
                       "{},{},{},{},{},{},{}\n",
                       head.block,
                       head.head,
                       i,
                       j,
                       tokens[i],
                       tokens[j],
                       head.weights[i * n + j]);
      }
    }
  }
  return out;
}

const ReportedHead& most_telling_head(const AttentionReport& report) {
  return *std::max_element(
      report.heads.begin(), report.heads.end(), [](const ReportedHead& a, const ReportedHead& b) {
        const double x = above_chance(a.scores);
        const double y = above_chance(b.scores);
        // Where nothing repeats: the sharpest.
        return x != y ? x < y : a.scores.entropy_share > b.scores.entropy_share;
      });
}

size_t telling_row(const AttentionReport& report, const ReportedHead& head) {
  constexpr size_t kLongest = 8;  // a mention longer than this tells no more
  const size_t n = report.ids.size();
  size_t best = n - 1;
  double most = 0;
  for (size_t i = 1; i < n; ++i) {
    double looked = 0;
    for (size_t j = 0; j + 1 < i; ++j) {
      size_t length = 0;
      while (length < kLongest && length <= j && report.ids[i - length] == report.ids[j - length]) {
        ++length;
      }
      if (length < static_cast<size_t>(report.match)) continue;
      const double weight = head.weights[i * n + j] + head.weights[i * n + j + 1];
      looked += weight * static_cast<double>(length);
    }
    if (looked <= most) continue;
    most = looked;
    best = i;
  }
  return best;
}

std::string attention_table(const AttentionReport& report) {
  std::vector<const ReportedHead*> order;
  for (const auto& head : report.heads) order.push_back(&head);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return above_chance(a->scores) > above_chance(b->scores);
  });
  std::string out =
      "block  head  does most         induction  (chance)  mention  previous  first  itself  "
      "distance  entropy\n";
  for (const auto* head : order) {
    const HeadScores& s = head->scores;
    const bool repeats = s.n_repeats > 0;
    out += fmt::format(
        "{:>5}  {:>4}  {:<16}  {:>9}  {:>8}  {:>7}  {:>8.2f}  {:>5.2f}  {:>6.2f}  {:>8.1f}  "
        "{:>6.0f}%\n",
        head->block,
        head->head,
        s.role,
        repeats ? fmt::format("{:.2f}", s.induction) : "-",
        repeats ? fmt::format("{:.2f}", s.induction_by_chance) : "-",
        repeats ? fmt::format("{:.2f}", s.earlier_mention) : "-",
        s.previous_token,
        s.first_token,
        s.itself,
        s.distance,
        100 * s.entropy_share);
  }
  return out;
}

std::string attention_text_map(const AttentionReport& report,
                               const ReportedHead& head,
                               size_t columns,
                               bool unicode) {
  const size_t n = report.ids.size();
  size_t label_width = 1;
  std::vector<std::string> labels;
  const std::string space = unicode ? "\u2423" : "_";
  for (const auto& token : report.tokens) {
    std::string label = visible_token(token);
    if (label == " ") label = space;
    labels.push_back(label);
    label_width = std::max(label_width, std::min<size_t>(label.size(), 12));
  }
  const size_t room = columns > label_width + 8 ? columns - label_width - 7 : 1;
  const size_t first = n > room ? n - room : 0;
  std::string out = fmt::format("block {}, head {}: {}\n", head.block, head.head, head.scores.role);
  for (size_t i = first; i < n; ++i) {
    std::string label = labels[i];
    if (label.size() > 12) {
      size_t end = 12;
      while (end > 0 && (label[end] & 0xC0) == 0x80) --end;  // whole characters
      label.resize(end);
    }
    out += fmt::format("{:>5} {:>{}} ", i, label, label_width);
    for (size_t j = first; j <= i; ++j) {
      const double level = std::sqrt(std::max(0.0F, head.weights[i * n + j]));
      const auto shade = static_cast<size_t>(std::clamp(std::lround(level * 5), 0L, 5L));
      out += (unicode ? kShades : kAsciiShades)[shade];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  if (first > 0)
    out += fmt::format("(the last {} of {} tokens; --out FILE.html shows all)\n", room, n);
  return out;
}

}  // namespace tril
