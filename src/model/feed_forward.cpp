#include "tril/model/feed_forward.h"

namespace tril {

FeedForwardImpl::FeedForwardImpl(const ModelConfig& config) : activation_(config.activation) {
  const int64_t c = config.n_embed;
  const int64_t f = config.ffn_size();
  const auto linear = [&](int64_t in, int64_t out) {
    return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(config.bias));
  };
  up = register_module("up", linear(c, f));
  if (activation_ == Activation::kSwiglu) gate = register_module("gate", linear(c, f));
  down = register_module("down", linear(f, c));
}

torch::Tensor FeedForwardImpl::forward(const torch::Tensor& x) {
  const torch::Tensor wide = up(x);  // (B, T, C) -> (B, T, F)
  switch (activation_) {
    case Activation::kRelu:
      return down(torch::relu(wide));
    case Activation::kGelu:
      return down(torch::gelu(wide, "none"));
    case Activation::kGeluTanh:
      return down(torch::gelu(wide, "tanh"));
    case Activation::kReluSquared:
      return down(torch::relu(wide).square());
    case Activation::kSwiglu:
      return down(torch::silu(gate(x)) * wide);
  }
  TORCH_CHECK(false, "unknown activation");
}

}  // namespace tril
