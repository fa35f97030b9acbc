#include "gpt2_split.h"

namespace tril {
namespace {

/// The character that ends at `end` (begin < end).
ScannedChar scan_char_before(const uint8_t* begin, const uint8_t* end, const uint8_t* table) {
  for (uint32_t back = 1; back <= 4 && back <= static_cast<size_t>(end - begin); ++back) {
    const ScannedChar c = scan_char(end - back, end, table);
    if (c.n_bytes == back && (back > 1 || end[-1] < 0x80)) return c;
  }
  return {};  // an invalid byte
}

}  // namespace

// A cut between characters a and b is certain where no alternative of the pattern can hold both,
// whatever stands before a and after b. An alternative that begins at b never looks back. The
// classes of a and b differ, and:
//   b is white space, a is not: no alternative goes on from a into white space, and the prefix has
//   no
//     white space at its end that could be taken otherwise.
//   neither is white space: a run ends where its class does; only '\'' may go on into a letter.
//   a is white space: never certain (the last of several goes with what follows).
// Both must be what they are with more text after b: a is complete, since b follows, unless b's
// bytes could complete it, which bytes that begin a character cannot; b must be complete in `text`.
size_t gpt2_safe_prefix(std::string_view text) {
  const uint8_t* table = char_class_table();
  const auto* begin = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* end = begin + text.size();
  for (const uint8_t* b = end; b > begin;) {
    --b;
    if ((*b & 0xC0) == 0x80 || b == begin) continue;  // no place where a valid character begins
    const ScannedChar next = scan_char(b, end, table);
    if (*b >= 0x80 && next.n_bytes == 1) continue;  // invalid, or not complete yet
    const ScannedChar previous = scan_char_before(begin, b, table);
    if (previous.kind == CharClass::kSpace || previous.kind == next.kind) continue;
    if (b[-1] == '\'' && next.kind == CharClass::kLetter) continue;
    return static_cast<size_t>(b - begin);
  }
  return 0;
}

}  // namespace tril
