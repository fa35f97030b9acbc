#pragma once
// A new run that begins with another run's weights: `init_from`.

#include <memory>
#include <string>
#include <vector>

#include "tril/checkpoint/checkpoint.h"
#include "tril/config/model_config.h"
#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Throws ConfigError with one line per key in which `wanted` cannot begin with weights of
/// `stored`. May differ: dropout, attention, vocab_multiple; context_length (shorter, or with rope
/// any); vocab_size (larger).
void require_initial_weights_fit(const ModelConfig& stored,
                                 const ModelConfig& wanted,
                                 const std::string& origin);

/// The tokenizer of the new run: the stored one; or the one that `data.tokenizer` names, when each
/// stored id means the same in it (a vocabulary that grows at its end). DataError otherwise.
std::shared_ptr<const Tokenizer> tokenizer_for_initial_weights(
    std::shared_ptr<const Tokenizer> stored, const std::string& wanted);

/// Sets the weights of `model` from a checkpoint whose model is `stored`. Positions beyond the new
/// context are left out. Rows of new ids (embedding, head) are the mean of the stored ids' rows.
void load_initial_weights(GPT& model, const ModelConfig& stored, const Checkpoint& checkpoint);

}  // namespace tril
