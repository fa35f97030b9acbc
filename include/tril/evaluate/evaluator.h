#pragma once
// The loss of a text: every token but the first scored exactly once, the same windows every time.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "tril/base/token_file.h"
#include "tril/distributed/process_group.h"
#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Windows are scored side by side, as many as make this number of tokens.
inline constexpr int64_t kEvaluationTokens = 8192;

struct EvaluateOptions {
  int64_t max_tokens =
      0;  ///< 0: all; else about so many, in evenly spaced windows, always the same
  int64_t batch_size =
      0;  ///< windows at once; 0: as many as make kEvaluationTokens. Does not change the result.
  torch::ScalarType precision = torch::kFloat32;
  std::function<bool()> should_stop = {};                             ///< polled between batches
  std::function<void(int64_t done, int64_t total)> on_progress = {};  ///< in tokens
  /// Of several processes with the same model: they share the batches out, and each returns the
  /// same result, bit for bit that of one process. When one is told to stop, all return nothing.
  ProcessGroup* group = nullptr;
};

struct Evaluation {
  double nats = 0;     ///< sum over the scored tokens
  int64_t tokens = 0;  ///< scored tokens
  int64_t bytes = 0;   ///< bytes of text that the scored tokens stand for
  bool whole = false;  ///< every token but the first was scored
  /// Of the loss, in nats per token; windows are taken as independent, the tokens inside one are
  /// not. Not a number with fewer than two windows.
  double standard_error = std::numeric_limits<double>::quiet_NaN();

  double loss() const { return nats / static_cast<double>(tokens); }  ///< mean nats per token
  double perplexity() const;                                          ///< exp(loss)
  double bits_per_byte() const;  ///< of the scored tokens' text
};

/// Windows of stride T from the start of the file, the last one shorter: 10 tokens give 9
/// predictions. Each token is predicted from the tokens before it in its window.
/// Nothing when `should_stop` said so. DataError for fewer than 2 tokens or an id outside the
/// model's vocabulary. The model is put into evaluation mode and back.
std::optional<Evaluation> evaluate(GPT& model,
                                   const TokenFile& tokens,
                                   const Tokenizer& tokenizer,
                                   const EvaluateOptions& options);

}  // namespace tril
