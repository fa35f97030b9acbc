#pragma once
// A vocabulary without texts: for measurements only.

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Every id stands for one letter; no text has ids.
class NoTextTokenizer final : public Tokenizer {
 public:
  explicit NoTextTokenizer(int64_t vocab_size) : vocab_size_(vocab_size) {}

  std::string kind() const override { return "none"; }
  int64_t vocab_size() const override { return vocab_size_; }
  void encode_to(std::string_view text, std::vector<int32_t>& out) const override;
  std::string_view token_bytes(int64_t /*id*/) const override { return "x"; }
  int64_t start_token() const override { return 0; }
  OrderedJson to_json() const override { return {{"type", "none"}, {"vocab_size", vocab_size_}}; }
  size_t safe_prefix(std::string_view text, bool /*at_end*/) const override { return text.size(); }

 private:
  int64_t vocab_size_;
};

}  // namespace tril
