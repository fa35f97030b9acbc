#pragma once
// From logits to one token id. Plain C++ on one row of logits: no Torch, no hidden state.

#include <cstdint>
#include <span>
#include <vector>

namespace tril {

struct SamplingOptions {
  double temperature = 0.8;  ///< 0: always the most probable token
  int64_t top_k = 0;         ///< only the k most probable; 0: all
  double top_p = 1.0;        ///< only the most probable that together reach p; 1: all
  double min_p = 0.0;        ///< only those with at least min_p times the highest probability
  double repetition_penalty =
      1.0;  ///< > 1 lowers tokens already in the context (Keskar et al. 2019)
};

/// Throws ConfigError naming the option at fault: NaN, negative, or outside its range.
void validate(const SamplingOptions& options);

/// Picks a token. Order: repetition penalty, temperature, top_k, min_p, top_p, then the draw.
///   logits   (V) of the next position; all finite (else CheckpointError: the model is broken)
///   context  ids the repetition penalty looks at
///   uniform  in [0, 1): the random number of this draw
/// Ties go to the lower id, so the result depends on nothing but the arguments.
int64_t sample_token(std::span<const float> logits,
                     std::span<const int64_t> context,
                     const SamplingOptions& options,
                     double uniform);

}  // namespace tril
