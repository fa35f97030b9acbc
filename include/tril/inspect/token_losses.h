#pragma once
// How surprised a model is at each token of a text.

#include <cstdint>
#include <span>
#include <vector>

#include "tril/model/gpt.h"

namespace tril {

/// What the model thought of one token before it saw it.
struct TokenSurprise {
  struct Guess {
    int64_t id = 0;
    double probability = 0;
  };

  double loss = 0;             ///< -log of the probability given to the token that came, in nats
  int64_t rank = 0;            ///< 0: the most probable of all; n: n tokens were held more probable
  std::vector<Guess> guesses;  ///< the most probable ones, falling
};

/// One entry per token from the second on: entry k is about ids[k + 1]. In windows of
/// context_length as `evaluate` takes them, so the mean of the losses is the loss `tril evaluate`
/// gives for the same text. Needs at least 2 ids (DataError); CheckpointError when the output is
/// not finite.
std::vector<TokenSurprise> token_surprise(GPT& model,
                                          std::span<const int64_t> ids,
                                          int64_t n_guesses = 3);

}  // namespace tril
