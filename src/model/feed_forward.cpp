#include "tril/model/feed_forward.h"

#include "tril/model/activation.h"

namespace tril {

FeedForwardImpl::FeedForwardImpl(const ModelConfig& config) : activation_(config.activation) {
  const int64_t c = config.n_embed;
  const int64_t f = config.ffn_size();
  const auto linear = [&](int64_t in, int64_t out) {
    return Linear(torch::nn::LinearOptions(in, out).bias(config.bias));
  };
  up = register_module("up", linear(c, f));
  if (activation_ == Activation::kSwiglu) gate = register_module("gate", linear(c, f));
  down = register_module("down", linear(f, c));
}

torch::Tensor FeedForwardImpl::forward(const torch::Tensor& x) {
  const torch::Tensor wide = up(x);  // (B, T, C) -> (B, T, F)
  if (activation_ == Activation::kSwiglu) return down(torch::silu(gate(x)) * wide);
  return down(activate(wide, activation_));  // (B, T, F) -> (B, T, C)
}

}  // namespace tril
