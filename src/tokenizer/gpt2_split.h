#pragma once
// GPT-2's split pattern as a hand-written scanner:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Pieces are encoded by themselves. Text need not be UTF-8: every byte that belongs to no valid
// character counts as one character outside \s, \p{L} and \p{N}.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "unicode_class.h"

namespace tril {

/// One character at the front of some bytes.
struct ScannedChar {
  CharClass kind = CharClass::kOther;
  uint32_t n_bytes = 1;
};

namespace detail {

/// For each byte: the class of an ASCII character, or kNotAscii.
inline constexpr uint8_t kNotAscii = 4;

constexpr uint8_t ascii_class(unsigned c) {
  if (c >= 0x80) return kNotAscii;
  if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return static_cast<uint8_t>(CharClass::kLetter);
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(CharClass::kNumber);
  if (c == ' ' || (c >= 9 && c <= 13)) return static_cast<uint8_t>(CharClass::kSpace);
  return static_cast<uint8_t>(CharClass::kOther);
}

struct AsciiClasses {
  uint8_t of[256];
  constexpr AsciiClasses() : of() {
    for (unsigned c = 0; c < 256; ++c) of[c] = ascii_class(c);
  }
};
inline constexpr AsciiClasses kAsciiClasses;

/// A character of two to four bytes (p[0] >= 0x80), by the rules of the Unicode standard, table
/// 3-7.
inline ScannedChar scan_wide_char(const uint8_t* p, const uint8_t* end, const uint8_t* table) {
  const uint32_t lead = p[0];
  const auto n_left = static_cast<size_t>(end - p);
  const auto continues = [p](size_t i) { return (p[i] & 0xC0) == 0x80; };
  if (lead >= 0xC2 && lead <= 0xDF) {
    if (n_left < 2 || !continues(1)) return {};
    return {char_class(table, (lead & 0x1F) << 6 | (p[1] & 0x3FU)), 2};
  }
  if ((lead & 0xF0) == 0xE0) {
    if (n_left < 3 || !continues(1) || !continues(2)) return {};
    const uint32_t c = (lead & 0x0F) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU);
    if (c < 0x800 || (c >= 0xD800 && c <= 0xDFFF)) return {};
    return {char_class(table, c), 3};
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (n_left < 4 || !continues(1) || !continues(2) || !continues(3)) return {};
    const uint32_t c =
        (lead & 0x07) << 18 | (p[1] & 0x3FU) << 12 | (p[2] & 0x3FU) << 6 | (p[3] & 0x3FU);
    if (c < 0x10000 || c > 0x10FFFF) return {};
    return {char_class(table, c), 4};
  }
  return {};
}

/// One bit for each of 64 characters, the first one lowest.
struct ClassBits {
  uint64_t wide = 0;  // no ASCII
  uint64_t letters = 0;
  uint64_t numbers = 0;
  uint64_t spaces = 0;  // all ASCII white space
  uint64_t blank = 0;   // ' ' itself
  uint64_t apostrophes = 0;
};

#ifdef __SSE2__
inline ClassBits class_bits(const uint8_t* p) {
  ClassBits bits;
  const auto add = [](uint64_t& to, __m128i found, int part) {
    to |= static_cast<uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(found))) << (16 * part);
  };
  // What lies in [first, first + n) is below n when first is taken off; the comparison is of signed
  // bytes, so all are moved down by 128.
  const auto in_range = [](__m128i bytes, int first, int n) {
    const __m128i moved = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(0x80 - first)));
    return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(n - 0x80)));
  };
  for (int part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * part));
    const __m128i blank = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' '));
    add(bits.wide, bytes, part);
    add(bits.letters, in_range(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26), part);
    add(bits.numbers, in_range(bytes, '0', 10), part);
    add(bits.spaces, _mm_or_si128(blank, in_range(bytes, 9, 5)), part);
    add(bits.blank, blank, part);
    add(bits.apostrophes, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\'')), part);
  }
  return bits;
}
#endif

}  // namespace detail

/// The character at `p` (p < end).
inline ScannedChar scan_char(const uint8_t* p, const uint8_t* end, const uint8_t* table) {
  const uint8_t kind = detail::kAsciiClasses.of[*p];
  if (kind != detail::kNotAscii) return {static_cast<CharClass>(kind), 1};
  return detail::scan_wide_char(p, end, table);
}

/// Cuts a text into pieces, from its front to its end.
class Gpt2Splitter {
 public:
  explicit Gpt2Splitter(std::string_view text)
      : at_(reinterpret_cast<const uint8_t*>(text.data())),
        end_(at_ + text.size()),
        table_(char_class_table()) {}

  /// The next piece; empty at the end of the text.
  std::string_view next() {
    if (at_ == end_) return {};
    const uint8_t* const begin = at_;
    const uint8_t first = *begin;
    if (first == ' ' && begin + 1 < end_) {
      const ScannedChar c = scan_char(begin + 1, end_, table_);
      if (c.kind != CharClass::kSpace) return take(begin, run_end(begin + 1 + c.n_bytes, c.kind));
      return take(begin, spaces_end(begin));
    }
    if (first == '\'') {
      if (const size_t n_bytes = contraction(begin)) return take(begin, begin + n_bytes);
    }
    const ScannedChar c = scan_char(begin, end_, table_);
    if (c.kind != CharClass::kSpace) return take(begin, run_end(begin + c.n_bytes, c.kind));
    return take(begin, spaces_end(begin));
  }

  /// Ends of the next pieces, counted from position(): as many as there is room for, or fewer; none
  /// at the end of the text. Faster than next(): ASCII is looked at 64 bytes at a time.
  static constexpr size_t kMaxEnds = 512;
  size_t next_ends(std::span<size_t, kMaxEnds> ends) {
    const uint8_t* const origin = at_;
    size_t n_ends = 0;
    while (at_ < end_ && n_ends + kBlock < kMaxEnds) {
#ifdef __SSE2__
      if (may_be_block()) {
        const auto base = static_cast<size_t>(at_ - origin);
        uint64_t begins = begins_in_block(detail::class_bits(at_));
        if (begins != 0) {
          for (; begins != 0; begins &= begins - 1) {
            ends[n_ends++] = base + static_cast<size_t>(std::countr_zero(begins));
          }
          at_ = origin + ends[n_ends - 1];
          continue;
        }
      }
#endif
      next();
      ends[n_ends++] = static_cast<size_t>(at_ - origin);
    }
    return n_ends;
  }

  /// Where the next piece begins.
  const char* position() const {
    return reinterpret_cast<const char*>(at_);
  }

  /// For loops of their own over blocks of kBlock bytes from position() on: may this be one? (Not
  /// near the end of the text, nor just where something else than ASCII was found.)
  static constexpr size_t kBlock = 64;
  bool may_be_block() const {
    return at_ >= no_block_before_ && static_cast<size_t>(end_ - at_) >= kBlock + 16;
  }
  /// Bits where pieces begin in the block, without the one that begins at its front; 0 when there
  /// is none, or not everything is ASCII: then next() goes on.
  uint64_t begins_in_block(const detail::ClassBits& bits);
  /// Goes on where a piece begins.
  void go_to(const char* position) {
    at_ = reinterpret_cast<const uint8_t*>(position);
  }

 private:
  std::string_view take(const uint8_t* begin, const uint8_t* end) {
    at_ = end;
    return {reinterpret_cast<const char*>(begin), static_cast<size_t>(end - begin)};
  }

  /// Where characters of this class end.
  const uint8_t* run_end(const uint8_t* p, CharClass kind) const {
    while (p < end_) {
      const uint8_t ascii = detail::kAsciiClasses.of[*p];
      if (ascii == static_cast<uint8_t>(kind)) {
        ++p;
        continue;
      }
      if (ascii != detail::kNotAscii) return p;
      const ScannedChar c = detail::scan_wide_char(p, end_, table_);
      if (c.kind != kind) return p;
      p += c.n_bytes;
    }
    return p;
  }

  /// \s+(?!\S)|\s+ at white space: what follows keeps the last of several.
  const uint8_t* spaces_end(const uint8_t* p) const {
    const uint8_t* last = p;
    size_t n_chars = 0;
    while (p < end_) {
      const ScannedChar c = scan_char(p, end_, table_);
      if (c.kind != CharClass::kSpace) return n_chars > 1 ? last : p;
      last = p;
      p += c.n_bytes;
      ++n_chars;
    }
    return p;
  }

  /// Bytes of 's 't 'm 'd 're 've 'll at an apostrophe, or 0.
  size_t contraction(const uint8_t* p) const {
    const auto n_left = static_cast<size_t>(end_ - p);
    if (n_left < 2) return 0;
    switch (p[1]) {
      case 's':
      case 't':
      case 'm':
      case 'd':
        return 2;
      case 'r':
      case 'v':
        return n_left > 2 && p[2] == 'e' ? 3 : 0;
      case 'l':
        return n_left > 2 && p[2] == 'l' ? 3 : 0;
      default:
        return 0;
    }
  }

  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* table_;
  const uint8_t* no_block_before_ = nullptr;
};

// With bits for the 64 characters, a piece begins where
//   a letter, number or symbol follows another class, but not a space (the space has begun the
//   piece); white space follows none, or is the last of several.
// "'s" and its like, where the apostrophe begins a piece, move the beginning of the next.
inline uint64_t Gpt2Splitter::begins_in_block(const detail::ClassBits& bits) {
  const uint8_t* const block = at_;
  if (bits.wide != 0 || block[kBlock] >= 0x80) {
    no_block_before_ = block + kBlock;
    return 0;
  }
  const uint64_t others = ~(bits.letters | bits.numbers | bits.spaces);
  const bool space_follows =
      detail::kAsciiClasses.of[block[kBlock]] == static_cast<uint8_t>(CharClass::kSpace);
  const uint64_t next_spaces = bits.spaces >> 1 | static_cast<uint64_t>(space_follows) << 63;
  uint64_t begins = ((bits.letters & ~(bits.letters << 1)) | (bits.numbers & ~(bits.numbers << 1)) |
                     (others & ~(others << 1))) &
                    ~(bits.blank << 1);
  begins |= bits.spaces & (~(bits.spaces << 1) | ~next_spaces);
  for (uint64_t left = bits.apostrophes & begins; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    const size_t n_bytes = contraction(block + i);
    if (n_bytes == 0) continue;
    if (i + 1 < kBlock) begins &= ~(uint64_t{2} << i);
    if (i + n_bytes < kBlock) begins |= uint64_t{1} << (i + n_bytes);
  }
  return begins & ~uint64_t{1};  // not of the piece that begins the block
}

/// The longest prefix that ends where a piece ends whatever follows, and whose pieces are the same
/// as in the whole text; 0 when no such place is found. `text` may end inside a character.
size_t gpt2_safe_prefix(std::string_view text);

}  // namespace tril
