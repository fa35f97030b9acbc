// Reads the text of a grammar; tales_grammar.h says how it is written.
#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "tril/base/error.h"
#include "tril/data/tales_grammar.h"

namespace tril {
namespace {

constexpr size_t kMaxJoined = 100'000;  // rows from one "each of"

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Takes the part before the first `separator` off the front of `rest` (all of it when there is
/// none).
std::string_view take_until(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_';
         });
}

std::string large_first(std::string text) {
  if (!text.empty()) {
    text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  }
  return text;
}

/// Title case: every word but the small ones inside.
std::string large_words(std::string_view text) {
  static const std::set<std::string_view> kSmallWords = {"a",
                                                         "an",
                                                         "and",
                                                         "at",
                                                         "by",
                                                         "for",
                                                         "from",
                                                         "in",
                                                         "into",
                                                         "of",
                                                         "on",
                                                         "the",
                                                         "to",
                                                         "under",
                                                         "with"};
  std::string out;
  while (!text.empty()) {
    const std::string_view word = take_until(text, ' ');
    const bool is_small = !out.empty() && kSmallWords.contains(word);
    if (!out.empty()) out += ' ';
    out += is_small ? std::string(word) : large_first(std::string(word));
  }
  return out;
}

std::string with_article(const std::string& text) {
  static constexpr std::string_view kVowels = "aeiouAEIOU";
  const bool vowel = !text.empty() && kVowels.find(text[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + text;
}

}  // namespace

class TalesGrammarReader {
 public:
  explicit TalesGrammarReader(TalesGrammar& grammar) : grammar_(grammar) {}

  void read(std::string_view source) {
    read_lines(source);
    if (!row_text_.empty()) fail("the last row ends in ',' and does not go on");
    // All names are known now, so rules may be used before they are written down; variables too.
    for (const Alternative& alternative : alternatives_) declare_variables(alternative);
    for (const auto& [rule, body, weight, line] : alternatives_) {
      line_ = line;
      std::string_view rest = body;
      add_alternative(rule, parse_sequence(rest, /*in_brackets=*/false), weight);
    }
    for (const auto& choice : grammar_.choices_) {
      if (choice.alternatives.empty()) fail(fmt::format("rule \"{}\" is empty", choice.name));
    }
    const auto start = grammar_.rules_.find("fable");
    if (start == grammar_.rules_.end()) fail("there is no rule named \"fable\" to start from");
    grammar_.start_ = start->second;
  }

 private:
  using Item = TalesGrammar::Item;
  using Sequence = TalesGrammar::Sequence;
  using Kind = TalesGrammar::Kind;
  using Capitals = TalesGrammar::Capitals;

  struct Alternative {
    size_t rule;
    std::string text;
    uint64_t weight;
    int line;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("tales grammar, line {}: {}", line_, what));
  }

  // ---- lines -------------------------------------------------------------------------------

  void read_lines(std::string_view source) {
    const auto require_whole_row = [&] {
      if (!row_text_.empty()) fail("the row above ends in ',' and does not go on");
    };
    enum class Part { kNone, kTable, kRule } part = Part::kNone;
    while (!source.empty()) {
      ++line_;
      const std::string_view line = take_until(source, '\n');
      const std::string_view content = trim(line);
      if (content.empty() || content[0] == '#') continue;
      if (line.starts_with("table ")) {
        require_whole_row();
        start_table(line.substr(6));
        part = Part::kTable;
      } else if (line.starts_with("rule ")) {
        require_whole_row();
        start_rule(trim(line.substr(5)));
        part = Part::kRule;
      } else if (part == Part::kTable) {
        add_row(content);
      } else if (part == Part::kRule) {
        add_rule_line(content);
      } else {
        fail("expected \"table NAME: ...\" or \"rule NAME\"");
      }
    }
  }

  void start_table(std::string_view header) {
    const std::string name(trim(take_until(header, ':')));
    if (!is_name(name)) fail(fmt::format("\"{}\" is no name for a table", name));
    if (!grammar_.table_names_.emplace(name, grammar_.tables_.size()).second) {
      fail(fmt::format("there are two tables named \"{}\"", name));
    }
    TalesGrammar::Table table;
    for (header = trim(header); !header.empty(); header = trim(header)) {
      table.columns.emplace_back(take_until(header, ' '));
    }
    if (table.columns.empty()) fail("expected \"table NAME: COLUMN ...\"");
    grammar_.tables_.push_back(std::move(table));
  }

  /// "cell | cell", or "each of PARTS, PARTS | cell": one row for each way to join a part of each.
  /// A line that ends in ',' goes on in the next.
  void add_row(std::string_view content) {
    row_text_ += row_text_.empty() ? std::string(content) : ' ' + std::string(content);
    if (content.ends_with(',')) return;
    const std::string text = std::exchange(row_text_, {});
    TalesGrammar::Table& table = grammar_.tables_.back();
    std::vector<std::string> row;
    for (std::string_view rest = text; !rest.empty();)
      row.emplace_back(trim(take_until(rest, '|')));
    if (row.size() != table.columns.size()) {
      fail(fmt::format("expected {} cells, found {}", table.columns.size(), row.size()));
    }
    for (std::string& first : joined_parts(row.front())) {
      row.front() = std::move(first);
      table.rows.push_back(row);
    }
  }

  std::vector<std::string> joined_parts(std::string_view cell) const {
    constexpr std::string_view kEachOf = "each of ";
    if (!cell.starts_with(kEachOf)) return {std::string(cell)};
    cell.remove_prefix(kEachOf.size());
    std::vector<std::string> joined{""};
    while (!cell.empty()) {
      std::string_view parts = trim(take_until(cell, ','));
      std::vector<std::string> longer;
      while (!parts.empty()) {
        const std::string_view part = take_until(parts, ' ');
        for (const std::string& begun : joined) longer.push_back(begun + std::string(part));
        parts = trim(parts);
      }
      joined = std::move(longer);
      if (joined.size() > kMaxJoined)
        fail(fmt::format("\"each of\" makes over {} rows", kMaxJoined));
    }
    return joined;
  }

  void start_rule(std::string_view name) {
    if (!is_name(name)) fail(fmt::format("\"{}\" is no name for a rule", name));
    if (!grammar_.rules_.emplace(name, grammar_.choices_.size()).second) {
      fail(fmt::format("there are two rules named \"{}\"", name));
    }
    grammar_.choices_.emplace_back().name = name;
  }

  /// "- text", "-3 text", or the rest of the alternative begun above.
  void add_rule_line(std::string_view content) {
    if (content[0] == '-') {
      content.remove_prefix(1);
      uint64_t weight = 0;
      while (!content.empty() && std::isdigit(static_cast<unsigned char>(content[0])) != 0 &&
             weight < 100'000) {
        weight = weight * 10 + static_cast<uint64_t>(content[0] - '0');
        content.remove_prefix(1);
      }
      if (!content.empty() && content[0] != ' ') fail("expected \"- text\" or \"-WEIGHT text\"");
      alternatives_.push_back({grammar_.choices_.size() - 1,
                               std::string(trim(content)),
                               std::max<uint64_t>(weight, 1),
                               line_});
      return;
    }
    if (alternatives_.empty() || alternatives_.back().rule != grammar_.choices_.size() - 1) {
      fail("a rule's first line must begin with \"- \"");
    }
    std::string& text = alternatives_.back().text;
    // Lines join with a space, except where a reader sees none: after a break and inside brackets.
    const bool joins = text.ends_with("\\n") || text.ends_with('|') || text.ends_with('[');
    if (!joins) text += ' ';
    text += content;
  }

  // ---- text --------------------------------------------------------------------------------

  /// Parses up to the end, or inside brackets up to the '|' or ']' that ends the alternative.
  Sequence parse_sequence(std::string_view& rest, bool in_brackets) {
    Sequence sequence;
    std::string literal;
    const auto flush = [&] {
      if (literal.empty()) return;
      Item item;
      item.literal = std::exchange(literal, {});
      item.line = line_;
      sequence.push_back(std::move(item));
    };
    while (!rest.empty()) {
      const char c = rest.front();
      if (in_brackets && (c == '|' || c == ']')) break;
      if (rest.starts_with("\\n")) {
        literal += '\n';
        rest.remove_prefix(2);
      } else if (c == '[') {
        flush();
        sequence.push_back(parse_brackets(rest));
      } else if (c == '<' || c == '{') {
        flush();
        const char close = c == '<' ? '>' : '}';
        const size_t end = rest.find(close == '}' ? "}" : ">");
        if (end == std::string_view::npos) fail(fmt::format("'{}' is not closed", c));
        const std::string_view inside = rest.substr(1, end - 1);
        rest.remove_prefix(end + 1);
        sequence.push_back(c == '<' ? parse_call(inside) : parse_slot(inside));
      } else if (c == '|' || c == ']' || c == '>' || c == '}' || c == '\\') {
        fail(fmt::format("a stray '{}'", c));
      } else {
        literal += c;
        rest.remove_prefix(1);
      }
    }
    flush();
    return sequence;
  }

  Item parse_brackets(std::string_view& rest) {
    const size_t choice = grammar_.choices_.size();
    grammar_.choices_.emplace_back();
    std::set<std::string_view> seen;
    do {
      rest.remove_prefix(1);  // the '[' or '|'
      const std::string_view before = rest;
      Sequence sequence = parse_sequence(rest, /*in_brackets=*/true);
      const std::string_view text = before.substr(0, before.size() - rest.size());
      if (!seen.insert(text).second) fail(fmt::format("two equal alternatives \"{}\"", text));
      add_alternative(choice, std::move(sequence), 1);
    } while (rest.starts_with('|'));
    if (rest.empty()) fail("'[' is not closed");
    rest.remove_prefix(1);
    Item item;
    item.type = Item::Type::kChoice;
    item.choice = choice;
    item.line = line_;
    return item;
  }

  void add_alternative(size_t choice, Sequence sequence, uint64_t weight) {
    TalesGrammar::Choice& target = grammar_.choices_[choice];
    target.alternatives.push_back(std::move(sequence));
    target.weights.push_back(weight);
    target.total_weight += weight;
  }

  Item parse_call(std::string_view rule) {
    const auto found = grammar_.rules_.find(std::string(rule));
    if (found == grammar_.rules_.end()) fail(fmt::format("there is no rule named \"{}\"", rule));
    Item item;
    item.type = Item::Type::kChoice;
    item.choice = found->second;
    item.line = line_;
    return item;
  }

  /// Parses every slot that sets a variable, for its kind alone.
  void declare_variables(const Alternative& alternative) {
    line_ = alternative.line;
    std::string_view rest = alternative.text;
    for (size_t open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
      rest.remove_prefix(open + 1);
      const std::string_view slot = rest.substr(0, rest.find('}'));
      const size_t equals = slot.find('=');
      if (equals == std::string_view::npos) continue;
      std::string_view name = slot.substr(0, equals);
      name.remove_prefix(std::min(name.size(), name.find_last_of(" ^") + 1));
      std::string_view source = slot.substr(equals + 1);
      if (name.empty()) continue;
      if (source.starts_with('<')) {
        variable(name, Kind::kText, 0);
      } else if (source.find("..") != std::string_view::npos) {
        variable(name, Kind::kNumber, 0);
      } else {
        const std::string_view table = source.substr(0, source.find_first_of(".!"));
        const auto found = grammar_.table_names_.find(std::string(table));
        if (found != grammar_.table_names_.end()) variable(name, Kind::kRow, found->second);
      }
    }
  }

  // ---- slots: {...} ------------------------------------------------------------------------

  Item parse_slot(std::string_view slot) {
    Item item;
    bool article = false;
    std::string_view body = slot;
    while (body.starts_with('^')) {
      item.capitals = item.capitals == Capitals::kNone ? Capitals::kFirst : Capitals::kWords;
      body.remove_prefix(1);
    }
    if (body.starts_with("a ")) {
      article = true;
      body.remove_prefix(2);
      while (body.starts_with('^')) {  // {a ^^x}: the article itself stays small
        item.capitals = Capitals::kWords;
        body.remove_prefix(1);
      }
    }
    item.line = line_;
    const size_t equals = body.find('=');
    if (equals == std::string_view::npos) {
      parse_recall(item, body, article, slot.starts_with("^a "));
      return item;
    }
    const std::string_view name = body.substr(0, equals);
    std::string_view source = body.substr(equals + 1);
    if (source.starts_with('<') || source.find("..") != std::string_view::npos) {
      if (name.empty()) fail(fmt::format("{{{}}} keeps what it picks in no variable", slot));
      if (article) fail(fmt::format("{{{}}}: only a table's cell takes an article", slot));
    }
    if (source.starts_with('<')) {
      // The '>' is inside the braces here, so the whole slot arrives in one piece.
      if (!source.ends_with('>')) fail(fmt::format("{{{}}}: '<' is not closed", slot));
      if (item.capitals != Capitals::kNone)
        fail(fmt::format("{{{}}}: a kept text has no '^'", slot));
      item.choice = parse_call(source.substr(1, source.size() - 2)).choice;
      item.type = Item::Type::kChoice;
      item.variable = variable(name, Kind::kText, 0);
    } else if (const size_t dots = source.find(".."); dots != std::string_view::npos) {
      item.type = Item::Type::kPickNumber;
      item.low = parse_sum(source.substr(0, dots));
      item.high = parse_sum(source.substr(dots + 2));
      item.variable = variable(name, Kind::kNumber, 0);
    } else {
      parse_pick(item, name, source, article, slot.starts_with("^a "));
    }
    return item;
  }

  void parse_pick(Item& item,
                  std::string_view name,
                  std::string_view source,
                  bool article,
                  bool large_article) {
    std::string_view excluded = source;
    std::string_view cell = take_until(excluded, '!');
    const std::string table_name(take_until(cell, '.'));
    const auto table = grammar_.table_names_.find(table_name);
    if (table == grammar_.table_names_.end()) {
      fail(fmt::format("there is no table named \"{}\"", table_name));
    }
    item.type = Item::Type::kPickRow;
    if (!name.empty()) item.variable = variable(name, Kind::kRow, table->second);
    while (!excluded.empty()) {
      item.excluded.push_back(
          static_cast<size_t>(variable(take_until(excluded, '!'), Kind::kRow, table->second)));
    }
    item.printed = print_cells(table->second, cell, item.capitals, article, large_article);
    // Two rows that print alike could not be told apart by a reader of the text.
    if (!compared_.insert(item.printed.get()).second) return;
    std::unordered_set<std::string_view> seen;
    for (const std::string& text : *item.printed) {
      if (!seen.insert(text).second) {
        fail(fmt::format(
            "table \"{}\": two rows print \"{}\" where one is picked", table_name, text));
      }
    }
  }

  void parse_recall(Item& item, std::string_view body, bool article, bool large_article) {
    std::string_view cell = body;
    const std::string name(take_until(cell, '.'));
    const std::optional<size_t> known = find_variable(name);
    if (known && grammar_.variables_[*known].kind == Kind::kRow) {
      item.type = Item::Type::kRecallRow;
      item.variable = static_cast<int64_t>(*known);
      item.printed = print_cells(
          grammar_.variables_[*known].table, cell, item.capitals, article, large_article);
      return;
    }
    if (article || !cell.empty()) fail(fmt::format("{{{}}}: only a table's row has cells", body));
    if (known && grammar_.variables_[*known].kind == Kind::kText) {
      item.type = Item::Type::kRecallText;
      item.variable = static_cast<int64_t>(*known);
      if (item.capitals != Capitals::kNone)
        fail(fmt::format("{{{}}}: a kept text has no '^'", body));
      return;
    }
    item.type = Item::Type::kNumber;
    item.low = parse_sum(body);
  }

  /// What each row of a table prints at one place; made once for all places that print it so.
  TalesGrammar::Printed print_cells(size_t table_index,
                                    std::string_view column,
                                    Capitals capitals,
                                    bool article,
                                    bool large_article) {
    const TalesGrammar::Table& table = grammar_.tables_[table_index];
    size_t index = 0;
    if (!column.empty()) {
      const auto found = std::find(table.columns.begin(), table.columns.end(), column);
      if (found == table.columns.end()) fail(fmt::format("there is no column \"{}\"", column));
      index = static_cast<size_t>(found - table.columns.begin());
    }
    if (table.rows.empty()) fail("the table has no rows");
    TalesGrammar::Printed& known = printed_[{table_index, index, capitals, article, large_article}];
    if (known) return known;
    std::vector<std::string> printed;
    for (const auto& row : table.rows) {
      std::string text = row[index];
      if (capitals == Capitals::kWords) text = large_words(text);
      if (capitals == Capitals::kFirst && !article) text = large_first(text);
      if (article) text = with_article(text);
      if (large_article) text = large_first(text);
      printed.push_back(std::move(text));
    }
    known = std::make_shared<const std::vector<std::string>>(std::move(printed));
    return known;
  }

  /// "5", "n", "n-k", "2*n+1".
  TalesGrammar::Sum parse_sum(std::string_view text) {
    TalesGrammar::Sum sum;
    const std::string_view whole = text;
    int64_t sign = 1;
    for (;;) {
      const size_t end = text.find_first_of("+-");
      std::string_view term = text.substr(0, end);
      int64_t factor = sign;
      bool has_number = false;
      if (!term.empty() && std::isdigit(static_cast<unsigned char>(term[0])) != 0) {
        int64_t number = 0;
        while (!term.empty() && std::isdigit(static_cast<unsigned char>(term[0])) != 0 &&
               number < 1000) {
          number = number * 10 + (term[0] - '0');
          term.remove_prefix(1);
        }
        factor *= number;
        has_number = true;
        if (term.starts_with('*')) {
          term.remove_prefix(1);
          has_number = false;
        }
      }
      if (has_number && term.empty()) {
        sum.constant += factor;
      } else if (!has_number && is_name(term)) {
        sum.terms.emplace_back(factor, static_cast<size_t>(variable(term, Kind::kNumber, 0)));
      } else {
        fail(fmt::format("{{{}}} is neither a variable nor a sum of numbers", whole));
      }
      if (end == std::string_view::npos) return sum;
      sign = text[end] == '-' ? -1 : 1;
      text.remove_prefix(end + 1);
    }
  }

  std::optional<size_t> find_variable(std::string_view name) const {
    for (size_t i = 0; i < grammar_.variables_.size(); ++i) {
      if (grammar_.variables_[i].name == name) return i;
    }
    return std::nullopt;
  }

  /// The variable of this name; it must be of one kind, and of one table, everywhere.
  int64_t variable(std::string_view name, Kind kind, size_t table) {
    if (!is_name(name)) fail(fmt::format("\"{}\" is no name for a variable", name));
    std::optional<size_t> index = find_variable(name);
    if (!index) {
      index = grammar_.variables_.size();
      grammar_.variables_.push_back({std::string(name), kind, table});
    }
    const auto& known = grammar_.variables_[*index];
    if (known.kind != kind || known.table != table) {
      fail(fmt::format("{{{}}} holds one kind of thing here and another elsewhere", name));
    }
    return static_cast<int64_t>(*index);
  }

  TalesGrammar& grammar_;
  std::vector<Alternative> alternatives_;
  std::string row_text_;  ///< of a row that goes on in the next line
  /// By table, column, capitals, article, large article.
  std::map<std::tuple<size_t, size_t, Capitals, bool, bool>, TalesGrammar::Printed> printed_;
  std::set<const void*> compared_;  ///< those of them whose rows are known to differ
  int line_ = 0;
};

TalesGrammar::TalesGrammar(std::string_view source) {
  TalesGrammarReader(*this).read(source);
}

}  // namespace tril
