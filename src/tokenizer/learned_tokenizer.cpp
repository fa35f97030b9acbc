#include "tril/tokenizer/learned_tokenizer.h"

#include <algorithm>
#include <charconv>

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
  bool has_end_of_text() const override { return false; }

 private:
  CharVocabularyBuilder builder_;
};

class BpeLearner : public TokenizerLearner {
 public:
  explicit BpeLearner(BpeTrainOptions options)
      : has_end_of_text_(!options.special.empty()), trainer_(std::move(options)) {}
  void add(std::string_view piece) override { trainer_.add(piece); }
  void end_text() override { trainer_.end_text(); }
  std::shared_ptr<const Tokenizer> learn(const std::function<void()>& poll) override {
    return std::make_shared<const BpeTokenizer>(trainer_.train([&](int64_t, int64_t) { poll(); }),
                                                "the text's own BPE vocabulary");
  }
  bool has_end_of_text() const override { return has_end_of_text_; }

 private:
  bool has_end_of_text_;
  BpeTrainer trainer_;
};

bool is_bpe(std::string_view tokenizer) {
  if (!tokenizer.starts_with(kBpePrefix)) return false;
  const std::string_view number = tokenizer.substr(kBpePrefix.size());
  return !number.empty() && number.size() <= 9 &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_learned(std::string_view tokenizer) {
  return tokenizer == "char" || is_bpe(tokenizer);
}

std::unique_ptr<TokenizerLearner> make_learner(const std::string& tokenizer,
                                               const LearnerOptions& how) {
  if (!is_bpe(tokenizer)) return std::make_unique<CharLearner>();
  BpeTrainOptions options{.special_text = how.special};
  if (!how.documents) options.special.clear();
  const std::string_view number = std::string_view(tokenizer).substr(kBpePrefix.size());
  std::from_chars(number.data(), number.data() + number.size(), options.vocab_size);
  try {
    return std::make_unique<BpeLearner>(options);
  } catch (const ConfigError& error) {
    throw ConfigError("tokenizer " + tokenizer + ": " + error.what());
  }
}

}  // namespace tril
