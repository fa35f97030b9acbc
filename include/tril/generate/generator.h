#pragma once
// Text from a model: prompt in, tokens out one by one.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/generate/engine.h"
#include "tril/generate/sampler.h"
#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

enum class StopReason { kStop, kEndOfText, kLength };
/// "stop", "end_of_text", "length".
const char* stop_reason_name(StopReason reason);

/// Where the time went, added up over all texts.
struct GenerationTiming {
  int64_t prompt_tokens = 0;
  double prompt_seconds = 0;  ///< reading prompts (and windows that slid), a first token each
  int64_t step_tokens = 0;
  double step_seconds = 0;  ///< all further tokens
};

struct GenerateOptions {
  int64_t max_new_tokens = 200;
  SamplingOptions sampling = {};
  uint64_t seed = 1337;
  int64_t sample_index = 0;            ///< which of several samples: each draws other numbers
  std::vector<std::string> stop = {};  ///< texts that end the sample; matched on text, not on ids
  bool use_cache = true;               ///< the same ids either way; with it, much faster
  WeightFormat weights = WeightFormat::kFp32;  ///< of the engine: the CPU, with the cache
  int64_t threads = 0;                         ///< of the engine; 0: LibTorch's
  int64_t top_log_probabilities = -1;      ///< -1: none; else so many alternatives for each token
  std::function<bool()> should_stop = {};  ///< polled once per token
  GenerationTiming* timing = nullptr;      ///< of the engine, if given
};

struct Generation {
  std::string text;          ///< new text only, up to and without a stop text
  std::vector<int64_t> ids;  ///< new ids only
  StopReason reason = StopReason::kLength;
  /// One per id, when asked for: under the model's own distribution (temperature 1, no filters).
  std::vector<TokenLogProbabilities> log_probabilities;
};

/// Continues `prompt` (at least one id, each in the vocabulary). Only the last context_length ids
/// are read; past the context the window slides by one token at a time (and is read anew, since
/// every kept state had seen what has left the window).
/// `on_text` receives the text in pieces as it is certain: whole characters, and never the
/// beginning of what may become a stop text.
/// Throws CheckpointError when the model's output is not finite.
Generation generate(GPT& model,
                    const Tokenizer& tokenizer,
                    const std::vector<int64_t>& prompt,
                    const GenerateOptions& options,
                    const std::function<void(std::string_view)>& on_text = {});

/// One of several texts to continue.
struct Prompt {
  std::vector<int64_t> ids;
  int64_t sample_index = 0;
};

/// Continues every prompt, up to `at_once` side by side: a text that ends makes room for the next,
/// and each step reads the weights once for all. Prompts may differ in length; each text is what
/// generate() gives for its prompt and sample_index. On a GPU and without the cache they are made
/// one after another. Texts not begun when `should_stop` says so are left out at the end.
std::vector<Generation> generate_all(GPT& model,
                                     const Tokenizer& tokenizer,
                                     const std::vector<Prompt>& prompts,
                                     const GenerateOptions& options,
                                     int64_t at_once);

/// Finds stop texts in text that arrives in pieces, and holds back what may be the start of one.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stop_texts);

  /// Adds text; returns what is certain to come before any stop text.
  std::string push(std::string_view text);
  /// True once a stop text was complete; the text before it has been returned.
  bool found() const { return found_; }
  /// What was held back, at the end.
  std::string finish();

 private:
  std::vector<std::string> stop_texts_;
  std::string held_;
  bool found_ = false;
};

}  // namespace tril
