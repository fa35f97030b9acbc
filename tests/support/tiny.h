#pragma once
// A model small enough for any test: 2 blocks, 2 heads, width 16, context 8, vocabulary 32.

#include "tril/config/model_config.h"
#include "tril/model/gpt.h"
#include "tril/model/init.h"
#include "tril/tokenizer/char_tokenizer.h"

namespace tril::testing {

inline ModelConfig tiny_config(Preset preset = Preset::kModern) {
  ModelConfig config = model_preset(preset);
  config.context_length = 8;
  config.n_embed = 16;
  config.n_head = 2;
  config.n_blocks = 2;
  config.vocab_size = 32;
  return config;
}

/// With weights larger than a fresh model's, so that errors in any part show in the result.
inline GPT tiny_model(const ModelConfig& config, uint64_t seed = 1) {
  GPT model(config);
  initialize(model, seed);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() >= 2) parameter.mul_(10.0);
  }
  return model;
}

/// (B, T) ids that depend on nothing but the sizes.
inline torch::Tensor tiny_ids(int64_t batch, int64_t n_positions, int64_t vocab_size = 32) {
  return (torch::arange(batch * n_positions) * 7 + 3)
      .remainder(vocab_size)
      .view({batch, n_positions});
}

/// A tokenizer of n characters: '0' and those that follow it.
inline CharTokenizer tokenizer_of(int64_t n) {
  std::vector<char32_t> characters;
  for (int64_t i = 0; i < n; ++i) characters.push_back(static_cast<char32_t>('0' + i));
  return CharTokenizer(std::move(characters));
}

}  // namespace tril::testing
