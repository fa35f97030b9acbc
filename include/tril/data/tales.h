#pragma once
// The bundled corpus: fables drawn from data/tales.grammar, which is embedded in the program.
// Every text has exactly one derivation, so its -log P is known exactly: no model can do better on
// average, and an honest one falls t nats below on a given text with probability <= e^-t.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/data/tales_grammar.h"

namespace tril {

/// Where a fable ends (one past the blank line that closes it), and the -log P, in nats, of all
/// fables up to and including it.
struct TalesMark {
  int64_t end_byte = 0;
  double nats = 0;
};

struct TalesText {
  std::string text;  ///< plain ASCII; each fable ends with "\n\n", which it holds nowhere else
  std::vector<TalesMark> marks;  ///< one per fable
};

/// Whole fables, drawn independently, until there are at least `min_bytes` (> 0) bytes. A pure
/// function of its arguments: a longer corpus begins with the shorter one of the same seed.
TalesText make_tales(int64_t min_bytes, uint64_t seed);

/// -log P of a sequence of whole fables, in nats, found from the text alone. DataError with the
/// byte for a text that is no such sequence.
double tales_negative_log_probability(std::string_view fables);

/// The embedded grammar, and its source text.
const TalesGrammar& tales_grammar();
std::string_view tales_grammar_source();

/// Changes whenever the same (min_bytes, seed) could give another text; for the keys of caches.
std::string tales_fingerprint();

/// Writes the marks as text: a header line, then "<end_byte> <nats>" per fable.
void write_tales_side_file(const std::filesystem::path& path, std::span<const TalesMark> marks);

/// Reads them back; a file that is damaged, cut short or of another kind is a DataError.
std::vector<TalesMark> read_tales_side_file(const std::filesystem::path& path);

/// -log P of the bytes [begin_byte, end_byte) in nats. Both must be 0 or the end of a fable, else
/// DataError with the nearest such byte.
double floor_nats(std::span<const TalesMark> marks, int64_t begin_byte, int64_t end_byte);

/// The last fable's end that is <= byte; 0 when no fable ends that early. Splits are cut here.
int64_t fable_end_at_or_before(std::span<const TalesMark> marks, int64_t byte);

}  // namespace tril
