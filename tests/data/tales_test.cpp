// The bundled corpus: its probabilities are exact, its texts have one derivation each, and a model
// has something to learn in it.
#include "tril/data/tales.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/fingerprint.h"

using tril::testing::TempDir;

namespace tril {
namespace {

// Every part of the notation, small enough to list all its texts.
constexpr std::string_view kSmallGrammar = R"(
# a comment
table beast: kind food
  ox  | hay
  cat | fish
  elk | moss

rule fable
-3 {^a x=beast} [met|saw] {a y=beast!x}. {^n=1..3} {x.food} and
   {k=0..n} more is {2*n+k-n}.\n
- {x=beast.food}, {^^x}: <cry> {z=<cry>} {z}

rule cry
- ho
-2 hey[| you]
)";

TalesGrammar grammar_of(const std::string& rules) {
  return TalesGrammar("rule fable\n" + rules);
}

/// One MB of the corpus, made once.
const TalesText& one_megabyte() {
  static const TalesText tales = make_tales(1'000'000, 1);
  return tales;
}

/// The fables of a corpus, by its marks.
std::vector<std::string_view> split(const TalesText& tales) {
  std::vector<std::string_view> fables;
  size_t begin = 0;
  for (const TalesMark& mark : tales.marks) {
    const auto end = static_cast<size_t>(mark.end_byte);
    fables.push_back(std::string_view(tales.text).substr(begin, end - begin));
    begin = end;
  }
  return fables;
}

/// Mean -log p per character of `test` under an interpolated (Witten-Bell) 5-gram of `train`.
double five_gram_nats(std::string_view train, std::string_view test) {
  struct Context {
    int64_t total = 0;
    std::array<int32_t, 128> counts{};
  };
  // The last n characters, n = 0 to 4, with n in the low byte.
  const auto key_of = [](std::string_view text, size_t i, size_t n) {
    uint64_t key = n;
    for (size_t j = i - n; j < i; ++j)
      key |= static_cast<uint64_t>(text[j]) << (8 * (j - (i - n) + 1));
    return key;
  };
  std::unordered_map<uint64_t, Context> contexts;
  for (size_t i = 4; i < train.size(); ++i) {
    for (size_t n = 0; n <= 4; ++n) {
      Context& context = contexts[key_of(train, i, n)];
      ++context.total;
      ++context.counts.at(static_cast<size_t>(train[i]));
    }
  }
  double nats = 0;
  for (size_t i = 4; i < test.size(); ++i) {
    double p = 1.0 / 128;
    for (size_t n = 0; n <= 4; ++n) {
      const auto found = contexts.find(key_of(test, i, n));
      if (found == contexts.end()) continue;
      const auto& counts = found->second.counts;
      const auto kinds = static_cast<double>(counts.size()) -
                         static_cast<double>(std::count(counts.begin(), counts.end(), 0));
      p = (counts.at(static_cast<size_t>(test[i])) + kinds * p) /
          (static_cast<double>(found->second.total) + kinds);
    }
    nats -= std::log(p);
  }
  return nats / static_cast<double>(test.size() - 4);
}

TEST_CASE("All texts of a small grammar have probabilities that sum to 1", "[tales]") {
  const TalesGrammar grammar(kSmallGrammar);
  std::map<std::string, double> probability;
  size_t n_derivations = 0;
  grammar.enumerate([&](std::string_view text, double nats) {
    probability[std::string(text)] += std::exp(-nats);
    ++n_derivations;
  });
  // 3 * 2 beasts, 2 verbs, n in 1..3 with n + 1 values of k: 108; 3 beasts and 3 * 3 cries: 27.
  CHECK(n_derivations == 108 + 27);
  CHECK(probability.size() == n_derivations);
  double sum = 0;
  for (const auto& [text, p] : probability) sum += p;
  CHECK(std::abs(sum - 1) < 1e-12);

  const double first = 3.0 / 4 / 3 / 2 / 2 / 3 / 4;  // weight, x, verb, y, n, k of 0..3
  CHECK(probability.at("An ox saw a cat. Three hay and no more is three.\n") ==
        Approx(first).epsilon(1e-12));
  const double second = 1.0 / 4 / 3 * (2.0 / 3 / 2) * (1.0 / 3);  // weight, x, "hey you", "ho"
  CHECK(probability.at("moss, Elk: hey you ho ho") == Approx(second).epsilon(1e-12));
}

TEST_CASE("What the small grammar generates is found again by its parser", "[tales]") {
  const TalesGrammar grammar(kSmallGrammar);
  std::map<std::string, int> times;
  for (uint64_t number = 0; number < 3000; ++number) {
    const Fable fable = grammar.make(7, number);
    const Derivations derivations = grammar.derive(fable.text);
    REQUIRE(derivations.count == 1);
    REQUIRE(derivations.nats == Approx(fable.nats).epsilon(1e-12));
    ++times[fable.text];
  }
  CHECK(times.size() == 135);  // the rarest has P = 1/144
  // The drawn frequencies follow the probabilities: chi-square of 134 degrees of freedom, mean 134.
  double chi_square = 0;
  grammar.enumerate([&](std::string_view text, double nats) {
    const double expected = 3000 * std::exp(-nats);
    const double difference = times[std::string(text)] - expected;
    chi_square += difference * difference / expected;
  });
  CHECK(chi_square < 134 + 5 * std::sqrt(2.0 * 134));
  CHECK(chi_square > 134 - 5 * std::sqrt(2.0 * 134));
}

TEST_CASE("The parser counts every derivation of an ambiguous text and sums them", "[tales]") {
  const TalesGrammar grammar = grammar_of("- [a|a b] [b c|c]\n");
  const Derivations two = grammar.derive("a b c");
  CHECK(two.count == 2);
  CHECK(two.nats == Approx(std::log(2.0)).epsilon(1e-12));
  CHECK(grammar.derive("a b b c").count == 1);
  const Derivations none = grammar.derive("a b d");
  CHECK(none.count == 0);
  CHECK(std::isinf(none.nats));
  CHECK(none.reached == 4);
  CHECK(grammar.derive("a b c ").count == 0);
  CHECK(grammar.derive("").count == 0);
}

TEST_CASE("A search that turns back forgets what it had picked on the way", "[tales]") {
  // The second pick is optional and overwrites the first; without it the first must still hold.
  const TalesGrammar numbers = grammar_of("- {n=1..3}[ then {n=4..5}|], {n}.");
  std::set<std::string> texts;
  numbers.enumerate([&](std::string_view text, double) { texts.emplace(text); });
  CHECK(texts.size() == 9);
  CHECK(texts.contains("two then five, five."));
  CHECK(texts.contains("two, two."));
  const TalesGrammar kept = grammar_of("- {x=<a>}[ then {x=<a>}|], {x}.\nrule a\n- ho\n- hey");
  CHECK(kept.derive("ho, ho.").count == 1);
  CHECK(kept.derive("ho then hey, hey.").count == 1);
  CHECK(kept.derive("ho then hey, ho.").count == 0);
  CHECK(kept.derive("ho, hey.").count == 0);
  texts.clear();
  kept.enumerate([&](std::string_view text, double) { texts.emplace(text); });
  CHECK(texts.size() == 6);
  CHECK(texts.contains("ho, ho."));
}

TEST_CASE("A grammar that makes no sense is refused with its line", "[tales]") {
  const auto message = [](std::string_view source) -> std::string {
    try {
      const TalesGrammar grammar(source);
      grammar.make(0, 0);
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(message("rule fable\n- <no>"),
             ContainsSubstring("line 2: there is no rule named \"no\""));
  CHECK_THAT(message("rule x\n- y"), ContainsSubstring("no rule named \"fable\""));
  CHECK_THAT(message("rule fable\n"), ContainsSubstring("is empty"));
  CHECK_THAT(message("rule fable\n- [a|b"), ContainsSubstring("not closed"));
  CHECK_THAT(message("rule fable\n- a] b"), ContainsSubstring("stray ']'"));
  CHECK_THAT(message("rule fable\n- [a|a]"), ContainsSubstring("two equal alternatives"));
  CHECK_THAT(message("rule fable\n- {x=t}"), ContainsSubstring("no table named \"t\""));
  CHECK_THAT(message("rule fable\n- {n} {n=1..2}"), ContainsSubstring("used before it is picked"));
  CHECK_THAT(message("rule fable\n- {n=3..2}"), ContainsSubstring("the range 3..2 is empty"));
  CHECK_THAT(message("rule fable\n- {n=99..99} {n+1}"), ContainsSubstring("this one came to 100"));
  CHECK_THAT(message("rule fable\n- {n=1..2}{n=<a>}\nrule a\n- b"), ContainsSubstring("one kind"));
  CHECK_THAT(message("table t: a b\n  x | y\n  z\n"),
             ContainsSubstring("line 3: expected 2 cells"));
  CHECK_THAT(message("table t: a b\n  x | y\n  z | y\nrule fable\n- {v=t.b}"),
             ContainsSubstring("two rows print \"y\""));
  CHECK_THAT(message("table t: a\n  x\nrule fable\n- {v=t}{w=t!v}"), ContainsSubstring("left out"));
  CHECK_THAT(message("table t: a\n  x\nrule fable\n- {v=t.b}"),
             ContainsSubstring("no column \"b\""));
  CHECK_THAT(message("table t: a\n  each of x y,\nrule fable\n- {v=t}"),
             ContainsSubstring("line 3: the row above ends in ','"));
  CHECK_THAT(message("rule fable\n- x\ntable t: a\n  each of x y,"),
             ContainsSubstring("line 4: the last row ends in ','"));
  CHECK_THAT(message("table t: a\n  each of a ab, bc c\nrule fable\n- {v=t}"),
             ContainsSubstring("two rows print \"abc\""));
  std::string ten = "0 1 2 3 4 5 6 7 8 9";
  CHECK_THAT(message("table t: a\n  each of " + ten + "," + ten + "," + ten + "," + ten + "," +
                     ten + "," + ten + "\nrule fable\n- {v=t}"),
             ContainsSubstring("makes over 100000 rows"));
  CHECK_THAT(message("text"), ContainsSubstring("line 1"));
}

TEST_CASE("A row of parts stands for every way to join them", "[tales]") {
  const TalesGrammar grammar(
      "table t: name he\n  each of A B,\n    c d, e | he\n  F | she\nrule fable\n- {v=t} {v.he}");
  std::map<std::string, double> nats;
  grammar.enumerate([&](std::string_view text, double n) { nats[std::string(text)] = n; });
  CHECK(nats.size() == 5);
  for (const char* text : {"Ace he", "Ade he", "Bce he", "Bde he", "F she"}) {
    INFO(text);
    CHECK(nats.at(text) == Approx(std::log(5.0)));
  }
}

TEST_CASE("2000 tales have exactly one derivation each, of the generator's probability",
          "[tales]") {
  const TalesGrammar& grammar = tales_grammar();
  for (uint64_t number = 0; number < 2000; ++number) {
    const Fable fable = grammar.make(11, number);
    const Derivations derivations = grammar.derive(fable.text);
    INFO(fable.text);
    REQUIRE(derivations.count == 1);
    REQUIRE(derivations.nats == Approx(fable.nats).epsilon(1e-12));
    // The terminator ends the fable and is nowhere inside it; the text is plain ASCII.
    REQUIRE(fable.text.find("\n\n") == fable.text.size() - 2);
    REQUIRE(std::all_of(fable.text.begin(), fable.text.end(), [](char c) {
      return c == '\n' || (c >= ' ' && c <= '~');
    }));
    REQUIRE(fable.text.find("  ") == std::string::npos);
  }
}

TEST_CASE("The parser finds the corpus's -log P from the text alone", "[tales]") {
  const TalesText& tales = one_megabyte();
  CHECK(tales.text.size() >= 1'000'000);
  CHECK(tales.marks.back().end_byte == static_cast<int64_t>(tales.text.size()));
  const double nats = tales_negative_log_probability(tales.text);
  CHECK(nats == Approx(tales.marks.back().nats).epsilon(1e-9));
  // Any range between fables' ends too.
  const int64_t begin = fable_end_at_or_before(tales.marks, 300'000);
  const int64_t end = fable_end_at_or_before(tales.marks, 500'000);
  const auto part = std::string_view(tales.text)
                        .substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  CHECK(tales_negative_log_probability(part) ==
        Approx(floor_nats(tales.marks, begin, end)).epsilon(1e-9));
  CHECK(tales_negative_log_probability("") == 0);
}

TEST_CASE("A text that is no sequence of tales is refused with its byte", "[tales]") {
  const TalesText tales = make_tales(3000, 5);
  const auto second = static_cast<size_t>(tales.marks[0].end_byte);
  std::string changed = tales.text;
  const size_t at = changed.find(". ", second) + 2;
  changed[at] = '#';
  try {
    tales_negative_log_probability(changed);
    FAIL("accepted");
  } catch (const DataError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("at byte " + std::to_string(at)));
    CHECK_THAT(error.what(), ContainsSubstring("begins at byte " + std::to_string(second)));
  }
  // Cut short, with a byte too many, and something else altogether.
  CHECK_THROWS_AS(tales_negative_log_probability(tales.text.substr(0, tales.text.size() - 1)),
                  DataError);
  CHECK_THROWS_AS(tales_negative_log_probability(tales.text + "\n"), DataError);
  CHECK_THROWS_AS(tales_negative_log_probability("Once upon a time."), DataError);
  CHECK_THROWS_AS(tales_negative_log_probability(std::string(100'000, 'a')), DataError);
}

TEST_CASE("A number that does not follow from what was told is no tale", "[tales]") {
  // "... promised five days, and now it has been nine": the sum is part of the grammar.
  const TalesGrammar grammar = grammar_of("- {n=7..9} nuts, gave {k=2..n-2}, {n-k} were left.\n");
  CHECK(grammar.derive("nine nuts, gave four, five were left.").count == 1);
  CHECK(grammar.derive("nine nuts, gave four, six were left.").count == 0);
  CHECK(grammar.derive("nine nuts, gave eight, one were left.").count == 0);
}

TEST_CASE("The corpus is a pure function of size and seed", "[tales]") {
  const TalesText& tales = one_megabyte();
  const TalesText shorter = make_tales(100'000, 1);
  CHECK(tales.text.starts_with(shorter.text));
  CHECK(shorter.text.size() < 100'000 + 3000);
  CHECK(make_tales(100'000, 1).text == shorter.text);
  CHECK(make_tales(100'000, 2).text != shorter.text);
  CHECK(make_tales(1, 3).marks.size() == 1);
  CHECK(make_tales(0, 3).text.empty());
  // Not an oracle: our own output, pinned so that no cache of it goes stale unnoticed. When the
  // grammar changes on purpose, so does this.
  CHECK(fingerprint(tales.text.substr(0, 100'000)) == "60740834d72e898c85d37ccead254387");
}

TEST_CASE("The tales are rich: words, plots, lengths", "[tales]") {
  CHECK(tales_grammar().n_alternatives("tale") >= 20);
  std::set<std::string> words;
  std::string word;
  for (const char c : one_megabyte().text) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      if (std::islower(static_cast<unsigned char>(word[0])) != 0) words.insert(word);  // no names
      word.clear();
    }
  }
  CHECK(words.size() >= 1500);
  const double mean_bytes = static_cast<double>(one_megabyte().text.size()) /
                            static_cast<double>(one_megabyte().marks.size());
  CHECK(mean_bytes > 600);
  CHECK(mean_bytes < 1000);
}

TEST_CASE("No tale comes twice in 10 MB", "[tales]") {
  const TalesText tales = make_tales(10'000'000, 1);
  std::unordered_set<std::string> seen;
  for (const std::string_view fable : split(tales)) {
    REQUIRE(seen.insert(fingerprint(fable)).second);
  }
}

TEST_CASE("An interpolated 5-gram stays far above the floor", "[tales]") {
  const TalesText tales = make_tales(3'300'000, 1);
  const int64_t cut = fable_end_at_or_before(tales.marks, 3'000'000);
  const auto n_bytes = static_cast<int64_t>(tales.text.size());
  const std::string_view text = tales.text;
  const double floor = floor_nats(tales.marks, cut, n_bytes) / static_cast<double>(n_bytes - cut);
  const double five_gram = five_gram_nats(text.substr(0, static_cast<size_t>(cut)),
                                          text.substr(static_cast<size_t>(cut)));
  CHECK(five_gram > floor + 0.10);  // what is promised
  CHECK(five_gram > 0.7);           // what it is: about 0.92, and the floor about 0.12
  CHECK(five_gram < 1.2);           // a broken baseline would prove nothing
  CHECK(floor > 0.10);
  CHECK(floor < 0.20);
}

TEST_CASE("Floors are formed between the ends of fables only", "[tales]") {
  const std::vector<TalesMark> marks = {{100, 10.5}, {250, 20.75}, {300, 31.0}};
  CHECK(floor_nats(marks, 0, 300) == 31.0);
  CHECK(floor_nats(marks, 100, 250) == 10.25);
  CHECK(floor_nats(marks, 250, 250) == 0.0);
  CHECK(floor_nats({}, 0, 0) == 0.0);
  CHECK_THROWS_WITH(floor_nats(marks, 0, 299),
                    ContainsSubstring("byte 299") && ContainsSubstring("before it is at byte 250"));
  CHECK_THROWS_AS(floor_nats(marks, 0, 301), DataError);
  CHECK_THROWS_AS(floor_nats(marks, 1, 300), DataError);
  CHECK_THROWS_AS(floor_nats(marks, 250, 100), DataError);

  CHECK(fable_end_at_or_before(marks, 0) == 0);
  CHECK(fable_end_at_or_before(marks, 99) == 0);
  CHECK(fable_end_at_or_before(marks, 100) == 100);
  CHECK(fable_end_at_or_before(marks, 299) == 250);
  CHECK(fable_end_at_or_before(marks, 1'000'000) == 300);
  CHECK(fable_end_at_or_before({}, 5) == 0);
}

TEST_CASE("A side file comes back as it was written", "[tales]") {
  const TempDir folder;
  const TalesText tales = make_tales(50'000, 9);
  write_tales_side_file(folder / "marks", tales.marks);
  const std::vector<TalesMark> marks = read_tales_side_file(folder / "marks");
  REQUIRE(marks.size() == tales.marks.size());
  for (size_t i = 0; i < marks.size(); ++i) {
    CHECK(marks[i].end_byte == tales.marks[i].end_byte);
    CHECK(std::abs(marks[i].nats - tales.marks[i].nats) < 1e-9);
  }
  write_tales_side_file(folder / "empty", {});
  CHECK(read_tales_side_file(folder / "empty").empty());
}

TEST_CASE("A damaged side file is refused with the reason", "[tales]") {
  const TempDir folder;
  const auto message = [&folder](const std::string& content) -> std::string {
    write_file_atomically(folder / "marks", content);
    try {
      read_tales_side_file(folder / "marks");
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  };
  const std::string header = "tril-tales-marks 1 2\n";
  CHECK(message(header + "100 10.5\n200 20\n") == "accepted");
  CHECK_THAT(message(""), ContainsSubstring("expected a side file that begins"));
  CHECK_THAT(message("tril-tales-marks 2 2\n"), ContainsSubstring("begins with"));
  CHECK_THAT(message("tril-tales-marks 1 x\n"), ContainsSubstring("no count"));
  CHECK_THAT(message("tril-tales-marks 1 99999999999999999\n"), ContainsSubstring("found 0"));
  CHECK_THAT(message(header + "100 10.5\n"), ContainsSubstring("expected 2 fables, found 1"));
  CHECK_THAT(message(header + "100 10.5\n200 2"), ContainsSubstring("line 3"));
  CHECK_THAT(message(header + "100 10.5\n200 x\n"), ContainsSubstring("line 3"));
  CHECK_THAT(message(header + "100 10.5\n100 20\n"), ContainsSubstring("line 3"));
  CHECK_THAT(message(header + "100 10.5\n200 9\n"), ContainsSubstring("line 3"));
  CHECK_THAT(message(header + "100 nan\n200 9\n"), ContainsSubstring("line 2"));
  CHECK_THAT(message(header + "100 inf\n200 inf\n"), ContainsSubstring("line 2"));
  CHECK_THAT(message(header + "-5 1\n200 9\n"), ContainsSubstring("line 2"));
  CHECK_THROWS_AS(read_tales_side_file(folder / "absent"), DataError);
}

}  // namespace
}  // namespace tril
