#pragma once
// The position-wise network of a block: widen, bend, narrow.

#include <torch/torch.h>

#include "tril/config/model_config.h"
#include "tril/model/linear.h"

namespace tril {

/// down(activation(up(x))), or for swiglu down(silu(gate(x)) * up(x)) (Shazeer 2020).
///   x        (B, T, C)
///   returns  (B, T, C); inside it is F = ModelConfig::ffn_size() wide
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);

  Linear up{nullptr};    ///< (C -> F)
  Linear gate{nullptr};  ///< (C -> F), swiglu only
  Linear down{nullptr};  ///< (F -> C)

 private:
  Activation activation_;
};
TORCH_MODULE(FeedForward);

}  // namespace tril
