#include "tril/tokenizer/byte_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "json_fields.h"

namespace tril {
namespace {

/// The 256 one-byte strings that token_bytes() points into.
constexpr std::array<char, 256> make_all_bytes() {
  std::array<char, 256> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}
constexpr std::array<char, 256> kAllBytes = make_all_bytes();

class ByteTokenizer final : public Tokenizer {
 public:
  std::string kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }

  void encode_to(std::string_view text, std::vector<int32_t>& out) const override {
    const size_t begin = out.size();
    out.resize(begin + text.size());
    std::transform(text.begin(), text.end(), out.data() + begin, [](char c) {
      return static_cast<int32_t>(static_cast<unsigned char>(c));
    });
  }

  std::string_view token_bytes(int64_t id) const override {
    if (id < 0 || id > 255) {
      throw DataError(
          fmt::format("token id {} is outside the byte tokenizer's vocabulary (ids 0 to 255)", id));
    }
    return {&kAllBytes[static_cast<size_t>(id)], 1};
  }

  int64_t start_token() const override { return '\n'; }
  OrderedJson to_json() const override { return {{"type", "byte"}, {"version", 1}}; }
  size_t safe_prefix(std::string_view text, bool /*at_end*/) const override { return text.size(); }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> byte_tokenizer_from_json(const Json& json, const std::string& origin) {
  check_tokenizer_fields(json, origin, /*version=*/1, {"type", "version"});
  return make_byte_tokenizer();
}

}  // namespace tril
