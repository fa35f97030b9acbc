#include "tril/data/tales.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/fingerprint.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

// The grammar is one raw string literal, so that it stays readable on its own and needs no build
// step.
constexpr std::string_view kGrammarSource =
#include "../../data/tales.grammar"
    ;

// Raised when the generator itself, not the grammar, comes to give other texts.
constexpr std::string_view kGeneratorVersion = "tales-generator-1";

constexpr std::string_view kFableEnd = "\n\n";
constexpr std::string_view kSideFileMagic = "tril-tales-marks 1 ";

/// The first mark whose end is not before `byte`.
auto mark_at_or_after(std::span<const TalesMark> marks, int64_t byte) {
  return std::lower_bound(marks.begin(), marks.end(), byte, [](const TalesMark& mark, int64_t b) {
    return mark.end_byte < b;
  });
}

double nats_before(std::span<const TalesMark> marks, int64_t byte) {
  if (byte == 0) return 0;
  const auto mark = mark_at_or_after(marks, byte);
  if (mark == marks.end() || mark->end_byte != byte) {
    throw DataError(fmt::format(
        "tales: byte {} is not the end of a fable, so the floor of this range is not known; "
        "the fable's end before it is at byte {}",
        byte,
        fable_end_at_or_before(marks, byte)));
  }
  return mark->nats;
}

/// Takes one number and the character after it off the front of `rest`.
template <class Number>
bool take_number(std::string_view& rest, Number& number, char after) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{} || end == rest.data() + rest.size() || *end != after) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
  return true;
}

}  // namespace

std::string_view tales_grammar_source() {
  return kGrammarSource;
}

const TalesGrammar& tales_grammar() {
  static const TalesGrammar grammar(kGrammarSource);
  return grammar;
}

std::string tales_fingerprint() {
  return fingerprint(fmt::format("{}\n{}", kGeneratorVersion, kGrammarSource));
}

TalesText make_tales(int64_t min_bytes, uint64_t seed) {
  const TalesGrammar& grammar = tales_grammar();
  TalesText tales;
  if (min_bytes > 0) tales.text.reserve(static_cast<size_t>(min_bytes) + 4096);
  double nats = 0;
  for (uint64_t number = 0; static_cast<int64_t>(tales.text.size()) < min_bytes; ++number) {
    const Fable fable = grammar.make(seed, number);
    nats += fable.nats;
    tales.text += fable.text;
    tales.marks.push_back({static_cast<int64_t>(tales.text.size()), nats});
  }
  return tales;
}

double tales_negative_log_probability(std::string_view fables) {
  double nats = 0;
  for (size_t begin = 0; begin < fables.size();) {
    const size_t blank = fables.find(kFableEnd, begin);
    const size_t end = blank == std::string_view::npos ? fables.size() : blank + kFableEnd.size();
    const std::string_view fable = fables.substr(begin, end - begin);
    const Derivations derivations = tales_grammar().derive(fable);
    if (derivations.count == 0) {
      throw DataError(fmt::format(
          "tales: the text is no sequence of fables of this grammar: no fable goes on "
          "with \"{}\" at byte {} (the fable begins at byte {}); was it changed, or made "
          "by another version?",
          escape_for_message(fable.substr(derivations.reached), 40),
          begin + derivations.reached,
          begin));
    }
    if (derivations.count > 1) {
      throw DataError(fmt::format(
          "tales: the fable at byte {} has {} derivations; the grammar must give each text one",
          begin,
          derivations.count));
    }
    nats += derivations.nats;
    begin = end;
  }
  return nats;
}

void write_tales_side_file(const std::filesystem::path& path, std::span<const TalesMark> marks) {
  std::string out = fmt::format("{}{}\n", kSideFileMagic, marks.size());
  for (const TalesMark& mark : marks) {
    out += fmt::format("{} {:.9f}\n", mark.end_byte, mark.nats);
  }
  write_file_atomically(path, out);
}

std::vector<TalesMark> read_tales_side_file(const std::filesystem::path& path) {
  const std::string content = read_file(path, FileRole::kData);
  const auto fail = [&path](const std::string& what) {
    throw DataError(
        fmt::format("tales: {}: {}; remove the file and it is made again", path.string(), what));
  };
  std::string_view rest = content;
  uint64_t n_marks = 0;
  if (!rest.starts_with(kSideFileMagic)) {
    fail(fmt::format("expected a side file that begins with \"{}\", found \"{}\"",
                     kSideFileMagic,
                     escape_for_message(rest, 30)));
  }
  rest.remove_prefix(kSideFileMagic.size());
  if (!take_number(rest, n_marks, '\n')) fail("the header line holds no count of fables");

  std::vector<TalesMark> marks;
  // A damaged count must not become a huge allocation: a line has at least four bytes.
  marks.reserve(std::min<size_t>(n_marks, rest.size() / 4));
  TalesMark last;
  while (!rest.empty()) {
    TalesMark mark;
    if (!take_number(rest, mark.end_byte, ' ') || !take_number(rest, mark.nats, '\n')) {
      fail(fmt::format("line {} is not \"<end byte> <nats>\"", marks.size() + 2));
    }
    if (mark.end_byte <= last.end_byte || !std::isfinite(mark.nats) || mark.nats < last.nats) {
      fail(fmt::format("line {} does not go on from the line before: both numbers must grow",
                       marks.size() + 2));
    }
    marks.push_back(mark);
    last = mark;
  }
  if (marks.size() != n_marks) {
    fail(fmt::format("expected {} fables, found {}", n_marks, marks.size()));
  }
  return marks;
}

double floor_nats(std::span<const TalesMark> marks, int64_t begin_byte, int64_t end_byte) {
  if (begin_byte > end_byte) {
    throw DataError(
        fmt::format("tales: the range [{}, {}) ends before it begins", begin_byte, end_byte));
  }
  return nats_before(marks, end_byte) - nats_before(marks, begin_byte);
}

int64_t fable_end_at_or_before(std::span<const TalesMark> marks, int64_t byte) {
  const auto mark = mark_at_or_after(marks, byte);
  if (mark != marks.end() && mark->end_byte == byte) return byte;
  return mark == marks.begin() ? 0 : std::prev(mark)->end_byte;
}

}  // namespace tril
