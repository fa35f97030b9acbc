#pragma once
// The texts of scripts/make_gpt2_golden.py, made again.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tril/base/json.h"
#include "tril/base/utf8.h"

namespace tril::testing {

/// tests/golden/gpt2.json.
inline const Json& gpt2_golden() {
  static const Json json = read_json_file(
      std::filesystem::path(TRIL_SOURCE_DIR) / "tests/golden/gpt2.json", FileRole::kData);
  return json;
}

/// Knuth's linear congruential generator.
class GoldenRandom {
 public:
  explicit GoldenRandom(uint64_t seed) : state_(seed) {}
  uint64_t draw(uint64_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % n;
  }

 private:
  uint64_t state_;
};

/// Strings that hit the corners of GPT-2's split pattern.
class Strings {
 public:
  explicit Strings(uint64_t seed) : random_(seed) {
    for (const Json& atom : gpt2_golden().at("atoms")) atoms_.push_back(atom.get<std::string>());
    for (const Json& block : gpt2_golden().at("blocks")) {
      blocks_.emplace_back(block[0].get<uint32_t>(), block[1].get<uint32_t>());
    }
  }

  std::string next() {
    std::string text;
    for (uint64_t n = 1 + random_.draw(12); n > 0; --n) {
      const uint64_t kind = random_.draw(8);
      if (kind < 5) {
        text += atoms_[random_.draw(atoms_.size())];
      } else if (kind == 5) {
        const auto [first, last] = blocks_[random_.draw(blocks_.size())];
        for (uint64_t k = 1 + random_.draw(6); k > 0; --k) {
          append_utf8(text, static_cast<char32_t>(first + random_.draw(last - first + 1)));
        }
      } else if (kind == 6) {
        const auto code = static_cast<char32_t>(random_.draw(0x110000));
        append_utf8(text, code >= 0xD800 && code <= 0xDFFF ? U'x' : code);
      } else {
        text += static_cast<char>(32 + random_.draw(95));
      }
    }
    return text;
  }

 private:
  GoldenRandom random_;
  std::vector<std::string> atoms_;
  std::vector<std::pair<uint32_t, uint32_t>> blocks_;
};

}  // namespace tril::testing
