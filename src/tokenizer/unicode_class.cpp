#include "unicode_class.h"

#include <span>
#include <vector>

namespace tril {
namespace {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// clang-format off
#include "unicode_ranges.inc"
// clang-format on

std::vector<uint8_t> make_table() {
  std::vector<uint8_t> table(0x110000 / 4);
  const auto set = [&table](std::span<const CodePointRange> ranges, CharClass kind) {
    for (const CodePointRange& range : ranges) {
      for (char32_t c = range.first; c <= range.last; ++c) {
        table[c >> 2] |= static_cast<uint8_t>(static_cast<unsigned>(kind) << ((c & 3) * 2));
      }
    }
  };
  set(kLetterRanges, CharClass::kLetter);
  set(kNumberRanges, CharClass::kNumber);
  set(kSpaceRanges, CharClass::kSpace);
  return table;
}

}  // namespace

const uint8_t* char_class_table() {
  static const std::vector<uint8_t> table = make_table();
  return table.data();
}

}  // namespace tril
