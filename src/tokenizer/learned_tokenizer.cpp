#include "tril/tokenizer/learned_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "tril/base/error.h"
#include "tril/tokenizer/bpe_trainer.h"
#include "tril/tokenizer/char_tokenizer.h"

namespace tril {
namespace {

constexpr std::string_view kBpePrefix = "bpe:";

class CharLearner : public TokenizerLearner {
 public:
  void add(std::string_view piece) override { builder_.add(piece); }
  void end_text() override { builder_.end_text(); }
  std::shared_ptr<const Tokenizer> learn(const std::function<void()>&) override {
    return std::make_shared<const CharTokenizer>(builder_.finish());
  }

 private:
  CharVocabularyBuilder builder_;
};

class BpeLearner : public TokenizerLearner {
 public:
  explicit BpeLearner(const BpeTrainOptions& options)
      : n_wanted_(options.vocab_size), trainer_(options) {}
  void add(std::string_view piece) override { trainer_.add(piece); }
  void end_text() override { trainer_.end_text(); }
  std::shared_ptr<const Tokenizer> learn(const std::function<void()>& poll) override {
    auto result = std::make_shared<const BpeTokenizer>(
        trainer_.train([&](int64_t, int64_t) { poll(); }), "the text's own BPE vocabulary");
    n_learned_ = result->vocab_size();
    return result;
  }
  std::string remark() const override {
    std::string remark;
    if (n_learned_ < n_wanted_) {
      remark = fmt::format(
          "the vocabulary has {} ids, not {}: no other pair occurs twice", n_learned_, n_wanted_);
    }
    if (trainer_.thinning() > 1) {
      if (!remark.empty()) remark += "; ";
      remark += fmt::format("of the text's pieces over 8 bytes one in {} was counted",
                            trainer_.thinning());
    }
    return remark;
  }

 private:
  int64_t n_wanted_;
  int64_t n_learned_ = 0;
  BpeTrainer trainer_;
};

bool is_bpe(std::string_view tokenizer) {
  if (!tokenizer.starts_with(kBpePrefix)) return false;
  const std::string_view number = tokenizer.substr(kBpePrefix.size());
  return !number.empty() &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool learns_end_of_text(std::string_view tokenizer) {
  return is_bpe(tokenizer);
}

bool is_learned(std::string_view tokenizer) {
  return tokenizer == "char" || is_bpe(tokenizer);
}

std::unique_ptr<TokenizerLearner> make_learner(const std::string& tokenizer,
                                               const LearnerOptions& how) {
  if (!is_bpe(tokenizer)) return std::make_unique<CharLearner>();
  BpeTrainOptions options{.special_text = how.special};
  if (!how.documents) options.special.clear();
  const std::string_view number = std::string_view(tokenizer).substr(kBpePrefix.size());
  const auto read =
      std::from_chars(number.data(), number.data() + number.size(), options.vocab_size);
  if (read.ec != std::errc()) options.vocab_size = std::numeric_limits<int64_t>::max();
  try {
    return std::make_unique<BpeLearner>(options);
  } catch (const ConfigError& error) {
    throw ConfigError("tokenizer " + tokenizer + ": " + error.what());
  }
}

}  // namespace tril
