#include "tril/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tril {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What stands at the front of some bytes. For invalid and incomplete ones `n_bytes` is the
/// "maximal subpart" of the Unicode standard (§3.9, U+FFFD substitution): the longest prefix of a
/// valid character, at least one byte.
struct Front {
  enum class Kind { kValid, kIncomplete, kInvalid } kind;
  char32_t value = 0;
  size_t n_bytes = 0;
};

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

Front classify_front(std::string_view text) {
  const uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {Front::Kind::kValid, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Front::Kind::kInvalid, 0, 1};
  const size_t n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF
  // (Unicode standard, table 3-7).
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0xFFU >> (n + 1));
  for (size_t i = 1; i < n; ++i) {
    if (i == text.size()) return {Front::Kind::kIncomplete, 0, i};
    const uint8_t byte = byte_at(text, i);
    if (byte < (i == 1 ? low : 0x80) || byte > (i == 1 ? high : 0xBF)) {
      return {Front::Kind::kInvalid, 0, i};
    }
    value = (value << 6) | (byte & 0x3FU);
  }
  return {Front::Kind::kValid, value, n};
}

/// Whether a terminal shows the character by itself: no controls, invisible or reordering format
/// characters, combining marks of the first block, surrogates, private use or non-characters.
bool is_showable(char32_t c) {
  if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD) return false;
  if (c >= 0x300 && c <= 0x36F) return false;
  if ((c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
      (c >= 0x2060 && c <= 0x206F)) {
    return false;
  }
  if (c >= 0xD800 && c <= 0xF8FF) return false;
  if (c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB) || (c >= 0xFE00 && c <= 0xFE0F)) return false;
  return (c & 0xFFFE) != 0xFFFE && c < 0xE0000;
}

}  // namespace

std::optional<CodePoint> decode_utf8(std::string_view text) {
  assert(!text.empty());
  const Front front = classify_front(text);
  if (front.kind != Front::Kind::kValid) return std::nullopt;
  return CodePoint{front.value, front.n_bytes};
}

void append_utf8(std::string& out, char32_t code_point) {
  assert(code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF));
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | (code_point >> 12));
    } else {
      put(0xF0 | (code_point >> 18));
      put(0x80 | ((code_point >> 12) & 0x3F));
    }
    put(0x80 | ((code_point >> 6) & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    // Most text is ASCII: eight bytes at once.
    uint64_t word = 0;
    if (text.size() - i >= sizeof(word)) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080ULL) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const Front front = classify_front(text.substr(i));
    if (front.kind != Front::Kind::kValid) return i;
    i += front.n_bytes;
  }
  return std::nullopt;
}

std::string describe_code_point(char32_t code_point) {
  const std::string name = fmt::format("U+{:04X}", static_cast<uint32_t>(code_point));
  if (!is_showable(code_point)) return name;
  std::string shown;
  append_utf8(shown, code_point);
  return fmt::format("'{}' ({})", shown, name);
}

std::string escape_for_message(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const Front front = classify_front(text.substr(i));
    std::string piece;
    if (front.kind != Front::Kind::kValid) {
      for (size_t k = 0; k < front.n_bytes; ++k) {
        piece += fmt::format("\\x{:02x}", byte_at(text, i + k));
      }
    } else if (front.value == '\n') {
      piece = "\\n";
    } else if (front.value == '\r') {
      piece = "\\r";
    } else if (front.value == '\t') {
      piece = "\\t";
    } else if (front.value == '"' || front.value == '\\') {
      piece = {'\\', static_cast<char>(front.value)};
    } else if (front.value < 0x80 && !is_showable(front.value)) {
      piece = fmt::format("\\x{:02x}", static_cast<uint32_t>(front.value));
    } else if (!is_showable(front.value) && (front.value < 0x300 || front.value > 0x36F)) {
      piece = fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(front.value));
    } else {
      piece = std::string(text.substr(i, front.n_bytes));  // combining marks follow their letter
    }
    if (out.size() + piece.size() > max_bytes) return out + "...";
    out += piece;
    i += front.n_bytes;
  }
  return out;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_.append(bytes);
  const std::string_view text = pending_;
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const Front front = classify_front(text.substr(i));
    if (front.kind == Front::Kind::kIncomplete) break;
    out += front.kind == Front::Kind::kValid ? text.substr(i, front.n_bytes) : kReplacement;
    i += front.n_bytes;
  }
  pending_.erase(0, i);
  return out;
}

std::string Utf8Stream::finish() {
  const std::string rest(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return rest;
}

}  // namespace tril
