#pragma once
// The four classes of characters that GPT-2's split pattern tells apart: \p{L}, \p{N}, \s and the
// rest.

#include <cstddef>
#include <cstdint>

namespace tril {

enum class CharClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

/// Two bits per code point, four code points a byte; made on the first call.
const uint8_t* char_class_table();

/// The class of a code point (<= U+10FFFF). `table` is char_class_table().
inline CharClass char_class(const uint8_t* table, char32_t c) {
  return static_cast<CharClass>((table[c >> 2] >> ((c & 3) * 2)) & 3);
}

}  // namespace tril
