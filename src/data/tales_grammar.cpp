// What the grammar does: drawing, and the search for derivations. tales_grammar_reader.cpp reads
// it.
#include "tril/data/tales_grammar.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tril/base/counter_random.h"
#include "tril/base/error.h"

namespace tril {
namespace {

// A fable takes a few thousand steps; more than this is a text made to be hard.
constexpr int64_t kMaxSteps = 20'000'000;

constexpr int64_t kMaxNumber = 99;

[[noreturn]] void fail(int line, const std::string& what) {
  throw DataError(fmt::format("tales grammar, line {}: {}", line, what));
}

std::string number_word(int64_t value) {
  static constexpr std::array<std::string_view, 20> kSmall = {
      "no",       "one",     "two",     "three",     "four",     "five",    "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr std::array<std::string_view, 10> kTens = {
      "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
  const auto index = static_cast<size_t>(value);
  if (index < kSmall.size()) return std::string(kSmall[index]);
  std::string word(kTens[index / 10]);
  if (index % 10 != 0) word.append("-").append(kSmall[index % 10]);
  return word;
}

/// -log of one part in n.
double nats_of(uint64_t part, uint64_t whole) {
  return std::log(static_cast<double>(whole)) - std::log(static_cast<double>(part));
}

}  // namespace

std::string TalesGrammar::number_text(int64_t value, Capitals capitals, int line) {
  if (value < 0 || value > kMaxNumber) {
    fail(line, fmt::format("numbers go from 0 to {}, this one came to {}", kMaxNumber, value));
  }
  std::string word = number_word(value);
  if (capitals != Capitals::kNone) word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

int64_t TalesGrammar::evaluate(const Sum& sum, const Memory& memory, int line) const {
  int64_t value = sum.constant;
  for (const auto& [factor, variable] : sum.terms) {
    if (memory[variable].value < 0) {
      fail(line, fmt::format("{{{}}} is used before it is picked", variables_[variable].name));
    }
    value += factor * memory[variable].value;
  }
  return value;
}

const TalesGrammar::Bound& TalesGrammar::recall(const Item& item, const Memory& memory) const {
  const Bound& bound = memory[static_cast<size_t>(item.variable)];
  if (bound.value < 0) {
    fail(item.line,
         fmt::format("{{{}}} is used before it is picked",
                     variables_[static_cast<size_t>(item.variable)].name));
  }
  return bound;
}

std::vector<int64_t> TalesGrammar::excluded_rows(const Item& item, const Memory& memory) const {
  std::vector<int64_t> rows;
  for (const size_t variable : item.excluded) {
    if (memory[variable].value < 0) {
      fail(item.line, fmt::format("!{} is used before it is picked", variables_[variable].name));
    }
    rows.push_back(memory[variable].value);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (rows.size() >= item.printed->size()) fail(item.line, "every row of the table is left out");
  return rows;
}

int64_t TalesGrammar::n_alternatives(std::string_view rule) const {
  const auto found = rules_.find(std::string(rule));
  if (found == rules_.end()) {
    throw DataError(fmt::format("tales grammar: there is no rule named \"{}\"", rule));
  }
  return static_cast<int64_t>(choices_[found->second].alternatives.size());
}

/// Draws one fable, left to right. Choice c of fable f uses the random word (seed, f, c).
class TalesWriter {
 public:
  TalesWriter(const TalesGrammar& grammar, uint64_t seed, uint64_t number)
      : grammar_(grammar), seed_(seed), number_(number), memory_(grammar.variables_.size()) {}

  Fable write() {
    expand(grammar_.choices_[grammar_.start_]);
    return std::move(fable_);
  }

 private:
  using Item = TalesGrammar::Item;

  /// Uniform in [0, n); counts its -log probability unless the caller does.
  uint64_t draw(uint64_t n) {
    if (n == 1) return 0;
    return scale_to_range(random_bits(seed_, RandomStream::kCorpus, number_, n_choices_++), n);
  }

  void expand(const TalesGrammar::Choice& choice) {
    uint64_t ticket = draw(choice.total_weight);
    size_t chosen = 0;
    while (ticket >= choice.weights[chosen]) ticket -= choice.weights[chosen++];
    fable_.nats += nats_of(choice.weights[chosen], choice.total_weight);
    for (const Item& item : choice.alternatives[chosen]) print(item);
  }

  void set(const Item& item, int64_t value) {
    if (item.variable >= 0) memory_[static_cast<size_t>(item.variable)].value = value;
  }

  void print(const Item& item) {
    switch (item.type) {
      case Item::Type::kLiteral:
        fable_.text += item.literal;
        break;
      case Item::Type::kChoice: {
        const size_t begin = fable_.text.size();
        expand(grammar_.choices_[item.choice]);
        if (item.variable >= 0) {
          memory_[static_cast<size_t>(item.variable)] = {0, fable_.text.substr(begin)};
        }
        break;
      }
      case Item::Type::kPickRow: {
        const auto excluded = grammar_.excluded_rows(item, memory_);
        const uint64_t n = item.printed->size() - excluded.size();
        auto row = static_cast<int64_t>(draw(n));
        for (const int64_t gap : excluded) row += gap <= row ? 1 : 0;
        fable_.nats += nats_of(1, n);
        set(item, row);
        fable_.text += (*item.printed)[static_cast<size_t>(row)];
        break;
      }
      case Item::Type::kPickNumber: {
        const int64_t low = grammar_.evaluate(item.low, memory_, item.line);
        const int64_t high = grammar_.evaluate(item.high, memory_, item.line);
        if (low > high) fail(item.line, fmt::format("the range {}..{} is empty", low, high));
        const auto n = static_cast<uint64_t>(high - low + 1);
        const int64_t value = low + static_cast<int64_t>(draw(n));
        fable_.nats += nats_of(1, n);
        set(item, value);
        fable_.text += TalesGrammar::number_text(value, item.capitals, item.line);
        break;
      }
      case Item::Type::kRecallRow:
        fable_.text += (*item.printed)[static_cast<size_t>(grammar_.recall(item, memory_).value)];
        break;
      case Item::Type::kRecallText:
        fable_.text += grammar_.recall(item, memory_).text;
        break;
      case Item::Type::kNumber:
        fable_.text += TalesGrammar::number_text(
            grammar_.evaluate(item.low, memory_, item.line), item.capitals, item.line);
        break;
    }
  }

  const TalesGrammar& grammar_;
  uint64_t seed_;
  uint64_t number_;
  uint64_t n_choices_ = 0;
  TalesGrammar::Memory memory_;
  Fable fable_;
};

/// Walks every derivation, depth first. `Output` takes the printed pieces and may refuse one, which
/// ends that branch; it knows nothing of the grammar, and the walk nothing of the drawing.
///   bool push(string_view)     prints; false when this cannot be part of the text (nothing
///   printed) void pop(size_t n)         takes back the last n bytes size_t size() bytes printed so
///   far string since(size_t)       the bytes printed from there on void finish(double nats)   a
///   derivation is complete
template <class Output>
class TalesExplorer {
 public:
  TalesExplorer(const TalesGrammar& grammar, Output& output)
      : grammar_(grammar), output_(output), memory_(grammar.variables_.size()) {}

  void run() { choose(grammar_.choices_[grammar_.start_], nullptr, 0.0); }

 private:
  using Item = TalesGrammar::Item;
  using Sequence = TalesGrammar::Sequence;

  /// What is left to do after the sequence at hand: lives on the stack of the walk.
  struct Rest {
    const Sequence* sequence;
    size_t index;
    const Rest* next;
    int64_t capture;  ///< the variable that keeps the text since `mark`; -1 for none
    size_t mark;
  };

  void choose(const TalesGrammar::Choice& choice, const Rest* rest, double nats) {
    for (size_t i = 0; i < choice.alternatives.size(); ++i) {
      walk(
          &choice.alternatives[i], 0, rest, nats + nats_of(choice.weights[i], choice.total_weight));
    }
  }

  /// Prints `piece`, keeps `value` in the item's variable, goes on, and takes both back.
  void try_value(const Item& item,
                 int64_t value,
                 std::string_view piece,
                 const Sequence* sequence,
                 size_t index,
                 const Rest* rest,
                 double nats) {
    if (!output_.push(piece)) return;
    if (item.variable < 0) {
      walk(sequence, index, rest, nats);
    } else {
      auto& bound = memory_[static_cast<size_t>(item.variable)];
      const int64_t before = std::exchange(bound.value, value);
      walk(sequence, index, rest, nats);
      bound.value = before;
    }
    output_.pop(piece.size());
  }

  void walk(const Sequence* sequence, size_t index, const Rest* rest, double nats) {
    size_t printed = 0;  // by the items that leave no choice, in the loop below
    for (;; ++index) {
      if (++n_steps_ > kMaxSteps) {
        throw DataError(
            "tales: the search for derivations takes too long; this is no tale of ours");
      }
      if (index == sequence->size()) {
        if (rest == nullptr) {
          output_.finish(nats);
          break;
        }
        if (rest->capture >= 0) {
          TalesGrammar::Bound kept{0, output_.since(rest->mark)};
          auto& bound = memory_[static_cast<size_t>(rest->capture)];
          std::swap(bound, kept);
          walk(rest->sequence, rest->index, rest->next, nats);
          std::swap(bound, kept);
          break;
        }
        sequence = rest->sequence;
        index = rest->index - 1;  // the loop adds one
        rest = rest->next;
        continue;
      }
      const Item& item = (*sequence)[index];
      std::string_view piece;
      std::string number;
      if (item.type == Item::Type::kLiteral) {
        piece = item.literal;
      } else if (item.type == Item::Type::kRecallRow) {
        piece = (*item.printed)[static_cast<size_t>(grammar_.recall(item, memory_).value)];
      } else if (item.type == Item::Type::kRecallText) {
        piece = grammar_.recall(item, memory_).text;
      } else if (item.type == Item::Type::kNumber) {
        number = TalesGrammar::number_text(
            grammar_.evaluate(item.low, memory_, item.line), item.capitals, item.line);
        piece = number;
      } else {
        branch(item, sequence, index + 1, rest, nats);
        break;
      }
      if (!output_.push(piece)) break;
      printed += piece.size();
    }
    output_.pop(printed);
  }

  void branch(
      const Item& item, const Sequence* sequence, size_t index, const Rest* rest, double nats) {
    if (item.type == Item::Type::kChoice) {
      const Rest then{sequence, index, rest, item.variable, output_.size()};
      choose(grammar_.choices_[item.choice], &then, nats);
    } else if (item.type == Item::Type::kPickRow) {
      const auto excluded = grammar_.excluded_rows(item, memory_);
      const double cost = nats_of(1, item.printed->size() - excluded.size());
      for (size_t row = 0; row < item.printed->size(); ++row) {
        const auto value = static_cast<int64_t>(row);
        if (std::binary_search(excluded.begin(), excluded.end(), value)) continue;
        try_value(item, value, (*item.printed)[row], sequence, index, rest, nats + cost);
      }
    } else {
      const int64_t low = grammar_.evaluate(item.low, memory_, item.line);
      const int64_t high = grammar_.evaluate(item.high, memory_, item.line);
      if (low > high) fail(item.line, fmt::format("the range {}..{} is empty", low, high));
      const double cost = nats_of(1, static_cast<uint64_t>(high - low + 1));
      for (int64_t value = low; value <= high; ++value) {
        try_value(item,
                  value,
                  TalesGrammar::number_text(value, item.capitals, item.line),
                  sequence,
                  index,
                  rest,
                  nats + cost);
      }
    }
  }

  const TalesGrammar& grammar_;
  Output& output_;
  TalesGrammar::Memory memory_;
  int64_t n_steps_ = 0;
};

namespace {

/// Lets through only what agrees with a given text.
class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  bool push(std::string_view piece) {
    const std::string_view rest = text_.substr(position_);
    const auto differs = std::mismatch(piece.begin(), piece.end(), rest.begin(), rest.end());
    const auto n_equal = static_cast<size_t>(differs.first - piece.begin());
    reached_ = std::max(reached_, position_ + n_equal);
    if (n_equal < piece.size()) return false;
    position_ += n_equal;
    return true;
  }
  void pop(size_t n) { position_ -= n; }
  size_t size() const { return position_; }
  std::string since(size_t mark) const { return std::string(text_.substr(mark, position_ - mark)); }
  void finish(double nats) {
    if (position_ != text_.size()) return;
    ++count_;
    probability_ += std::exp(first_nats_ < 0 ? 0.0 : first_nats_ - nats);
    if (first_nats_ < 0) first_nats_ = nats;
  }

  Derivations result() const {
    if (count_ == 0) return {0, std::numeric_limits<double>::infinity(), reached_};
    return {count_, first_nats_ - std::log(probability_), text_.size()};
  }

 private:
  std::string_view text_;
  size_t position_ = 0;
  size_t reached_ = 0;
  int64_t count_ = 0;
  double first_nats_ = -1;  // of the first derivation found: the scale of the sum
  double probability_ = 0;  // sum over derivations, in units of the first one's
};

/// Lets everything through.
class Collector {
 public:
  explicit Collector(const std::function<void(std::string_view, double)>& visit) : visit_(visit) {}

  bool push(std::string_view piece) {
    text_ += piece;
    return true;
  }
  void pop(size_t n) { text_.resize(text_.size() - n); }
  size_t size() const { return text_.size(); }
  std::string since(size_t mark) const { return text_.substr(mark); }
  void finish(double nats) { visit_(text_, nats); }

 private:
  const std::function<void(std::string_view, double)>& visit_;
  std::string text_;
};

}  // namespace

Fable TalesGrammar::make(uint64_t seed, uint64_t number) const {
  return TalesWriter(*this, seed, number).write();
}

Derivations TalesGrammar::derive(std::string_view text) const {
  Matcher matcher(text);
  TalesExplorer<Matcher>(*this, matcher).run();
  return matcher.result();
}

void TalesGrammar::enumerate(
    const std::function<void(std::string_view text, double nats)>& visit) const {
  Collector collector(visit);
  TalesExplorer<Collector>(*this, collector).run();
}

}  // namespace tril
