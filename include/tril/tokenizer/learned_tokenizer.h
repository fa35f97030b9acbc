#pragma once
// Tokenizers that are learned from the text they are for: "char", and "bpe:N".

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Reads a text and makes a tokenizer of it.
class TokenizerLearner {
 public:
  virtual ~TokenizerLearner() = default;
  /// The next piece of the current text; may end anywhere. Throws EncodeError for what the
  /// tokenizer could not encode, with the offset in this text.
  virtual void add(std::string_view piece) = 0;
  /// The current text ends, and another one may follow.
  virtual void end_text() = 0;
  /// Ends the text. `poll` is called now and then, and may throw. Throws DataError when there was
  /// no text.
  virtual std::shared_ptr<const Tokenizer> learn(const std::function<void()>& poll) = 0;
  /// After learn(): what a user should know of it, or nothing.
  virtual std::string remark() const { return {}; }
};

/// True for "char" (one token per character) and for "bpe:" and a number of ids (BpeTrainer).
bool is_learned(std::string_view tokenizer);
/// Can it separate documents by an end-of-text id?
bool learns_end_of_text(std::string_view tokenizer);

/// For documents, which a BPE vocabulary separates by <|endoftext|>, or for one running text: there
/// nothing would ever follow that token. `special`: what its text in a document means.
struct LearnerOptions {
  bool documents = false;
  SpecialText special = SpecialText::kIsText;
};

/// The learner of such a name. Throws ConfigError for a number of ids that BpeTrainer refuses.
std::unique_ptr<TokenizerLearner> make_learner(const std::string& tokenizer,
                                               const LearnerOptions& how);

}  // namespace tril
