#pragma once
// From logits to one token id. Plain C++ on one row of logits: no Torch, no hidden state.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tril {

struct SamplingOptions {
  double temperature = 0.8;  ///< 0: always the most probable token
  int64_t top_k = 0;         ///< only the k most probable; 0: all
  double top_p = 1.0;        ///< only the most probable that together reach p; 1: all
  double min_p = 0.0;        ///< only those with at least min_p times the highest probability
  double repetition_penalty =
      1.0;  ///< > 1 lowers tokens already in the context (Keskar et al. 2019)
  std::vector<std::pair<int64_t, double>> logit_bias =
      {};  ///< (token, number added to its logit), before everything else
};

/// Throws ConfigError naming the option at fault: NaN, negative, or outside its range.
void validate(const SamplingOptions& options);

/// Picks tokens, one row of logits after another; keeps its working memory between them.
class Sampler {
 public:
  explicit Sampler(SamplingOptions options) : options_(std::move(options)) {}

  /// Order: logit bias, repetition penalty, temperature, top_k, min_p, top_p, then the draw.
  ///   logits   (V) of the next position; all finite (else CheckpointError: the model is broken)
  ///   context  ids the repetition penalty looks at
  ///   uniform  in [0, 1): the random number of this draw
  /// Ties go to the lower id, so the result depends on nothing but the arguments.
  int64_t draw(std::span<const float> logits, std::span<const int64_t> context, double uniform);

 private:
  struct Candidate {
    int64_t id;
    double value;  ///< logit, then probability relative to the highest
  };
  static bool more_probable(const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.id < b.id;
  }
  void collect(std::span<const float> logits, std::span<const int64_t> context);
  void filter();

  SamplingOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<bool> seen_;
};

/// One draw.
int64_t sample_token(std::span<const float> logits,
                     std::span<const int64_t> context,
                     const SamplingOptions& options,
                     double uniform);

/// log softmax(logits), in nats: of one token, and the n highest with their ids (ties: lower id).
struct TokenLogProbabilities {
  double chosen = 0;
  std::vector<std::pair<int64_t, double>> top;
};
TokenLogProbabilities log_probabilities(std::span<const float> logits, int64_t id, int64_t n_top);

}  // namespace tril
