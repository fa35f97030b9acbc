// How GPT-2's files write bytes as characters: the printable ones of Latin-1 stand for themselves,
// the other 68 follow from U+0100 on, in order ("Ġ", U+0120, is the space).

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 256 + 68> byte{};  // by character; -1: none

  constexpr Alphabet() {
    byte.fill(-1);
    char32_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const char32_t c = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      character[b] = c;
      byte[c] = static_cast<int>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

std::optional<std::string> bytes_of_gpt2_characters(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const std::optional<CodePoint> point = decode_utf8(token);
    if (!point || point->value >= kAlphabet.byte.size() || kAlphabet.byte[point->value] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(kAlphabet.byte[point->value]));
    token.remove_prefix(point->n_bytes);
  }
  return bytes;
}

std::string gpt2_characters(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) {
    append_utf8(token, kAlphabet.character[static_cast<uint8_t>(byte)]);
  }
  return token;
}

}  // namespace tril
