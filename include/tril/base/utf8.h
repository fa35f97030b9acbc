#pragma once
// UTF-8: decode with exact validity rules, encode, and stream text without splitting a character.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tril {

/// One decoded code point and how many bytes it took.
struct CodePoint {
  char32_t value = 0;
  size_t n_bytes = 0;
};

/// Decodes the code point at the front of `text` (not empty). Nothing when the bytes are not valid
/// UTF-8 (overlong, surrogate, above U+10FFFF, stray or missing continuation).
std::optional<CodePoint> decode_utf8(std::string_view text);

/// Appends a code point (<= U+10FFFF, no surrogate) as UTF-8.
void append_utf8(std::string& out, char32_t code_point);

/// Offset of the first invalid byte; nothing when all of `text` is valid UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// "'d' (U+0064)", "U+000A" for what cannot be shown: names a character in a message.
std::string describe_code_point(char32_t code_point);

/// Text made printable on one line: control characters, quotes and invalid bytes are escaped (\n,
/// \x1b).
std::string escape_for_message(std::string_view text, size_t max_bytes = 80);

/// Takes bytes in any pieces and gives them back so that no character is ever cut: an incomplete
/// character at the end waits; bytes that cannot become a character pass through as U+FFFD.
class Utf8Stream {
 public:
  /// Returns what is complete after these bytes.
  std::string push(std::string_view bytes);
  /// Returns the rest at the end of the text (an incomplete character as U+FFFD).
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace tril
