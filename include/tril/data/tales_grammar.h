#pragma once
// A probabilistic grammar with memory: what is picked early (a hero, a thing, a number) is kept and
// comes back later without a further choice. Each choice has a known probability, so a text with
// exactly one derivation has a known probability too.
//
// The grammar is text (data/tales.grammar says how it is written, by example):
//   table NAME: COLUMN COLUMN ...   then rows, cells parted by '|'; a pick is uniform over the rows
//     "each of A B, C D | cell": rows AC, AD, BC, BD; a line that ends in ',' goes on
//   rule NAME                       then alternatives "- text" or, with a weight, "-3 text"
//   <rule>                          expands a rule          [this|that]  a choice in place, uniform
//   {x=table}  {x=table.column}     picks a row and prints a cell; {=table} forgets it at once
//   {x=table!y!z}                   the same, never the rows that y and z hold
//   {x}  {x.column}                 prints a cell of what x holds
//   {n=2..9}  {k=1..n-1}            picks a number, uniform in the closed range, and prints its
//   word {n}  {n-k}  {2*n+1}             computes, with no choice {x=<rule>} expands a rule and
//   keeps its text; {x} repeats it
//   {^x} {^^x} {a x} {^a x}         First letter large, Every Word Large, with "a" or "an",
//   "A"/"An" \n                              a line break
// The text starts from the rule `fable`. Variables live for one fable; each has one kind for good.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tril {

/// One text drawn from the grammar, with its -log P in nats.
struct Fable {
  std::string text;
  double nats = 0;
};

/// Every way the grammar has to make one text.
struct Derivations {
  int64_t count = 0;   ///< how many ways there are; 1 is what a sound grammar gives
  double nats = 0;     ///< -log of the sum of their probabilities; +inf for count 0
  size_t reached = 0;  ///< for count 0: the byte up to which some derivation agreed with the text
};

class TalesGrammar {
 public:
  /// Reads a grammar; DataError with the line for anything malformed or ambiguous at first sight
  /// (two equal rows or alternatives, a name that is not defined).
  explicit TalesGrammar(std::string_view source);

  /// Draws fable `number`: a pure function of (seed, number), the same on every machine.
  Fable make(uint64_t seed, uint64_t number) const;

  /// Finds all derivations of one whole fable from its text alone. DataError when the search takes
  /// too long, which a text of this grammar never does.
  Derivations derive(std::string_view text) const;

  /// Calls visit(text, nats) once for every derivation there is. For small grammars only.
  void enumerate(const std::function<void(std::string_view text, double nats)>& visit) const;

  /// The number of alternatives of a rule; DataError when there is no such rule.
  int64_t n_alternatives(std::string_view rule) const;

 private:
  friend class TalesGrammarReader;
  template <class Output>
  friend class TalesExplorer;
  friend class TalesWriter;

  enum class Kind { kNone, kRow, kNumber, kText };
  enum class Capitals { kNone, kFirst, kWords };

  /// constant + sum of factor * variable.
  struct Sum {
    int64_t constant = 0;
    std::vector<std::pair<int64_t, size_t>> terms;
  };

  using Printed = std::shared_ptr<const std::vector<std::string>>;

  struct Item {
    enum class Type { kLiteral, kChoice, kPickRow, kPickNumber, kRecallRow, kRecallText, kNumber };
    Type type = Type::kLiteral;
    std::string literal;
    size_t choice = 0;             ///< kChoice: which
    int64_t variable = -1;         ///< what is set or recalled; -1 for none
    Printed printed;               ///< rows: what each row prints here
    std::vector<size_t> excluded;  ///< kPickRow: variables whose rows are left out
    Sum low, high;                 ///< kPickNumber: the range; kNumber: low is the value
    Capitals capitals = Capitals::kNone;
    int line = 0;
  };
  using Sequence = std::vector<Item>;

  struct Choice {
    std::string name;  ///< a rule's name; empty for a choice in place
    std::vector<Sequence> alternatives;
    std::vector<uint64_t> weights;
    uint64_t total_weight = 0;
  };

  struct Table {
    std::vector<std::string> columns;
    std::vector<std::vector<std::string>> rows;
  };

  struct Variable {
    std::string name;
    Kind kind = Kind::kNone;
    size_t table = 0;
  };

  /// What a variable holds in one fable: a row, a number, or a text; value -1 before it is set.
  struct Bound {
    int64_t value = -1;
    std::string text;
  };
  using Memory = std::vector<Bound>;

  int64_t evaluate(const Sum& sum, const Memory& memory, int line) const;
  const Bound& recall(const Item& item, const Memory& memory) const;
  /// Which rows may be picked, as the sorted list of those that may not.
  std::vector<int64_t> excluded_rows(const Item& item, const Memory& memory) const;
  static std::string number_text(int64_t value, Capitals capitals, int line);

  std::vector<Choice> choices_;
  std::vector<Table> tables_;
  std::vector<Variable> variables_;
  std::unordered_map<std::string, size_t> rules_;
  std::unordered_map<std::string, size_t> table_names_;
  size_t start_ = 0;
};

}  // namespace tril
