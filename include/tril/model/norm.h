#pragma once
// Normalisation of the last dimension, with the residual sum before it: layer_norm or rms_norm,
// chosen by ModelConfig::norm.

#include <torch/torch.h>

#include "tril/config/model_config.h"

namespace tril {

/// A residual stream and what the next part of the block reads of it.
struct NormedSum {
  torch::Tensor sum;     ///< (..., C), goes on
  torch::Tensor normed;  ///< (..., C), under autocast in the precision of matrix products
};

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias      layer_norm (Ba et al. 2016)
/// y = x / sqrt(mean(x^2) + epsilon) * weight                rms_norm (Zhang and Sennrich 2019)
class NormImpl : public torch::nn::Module {
 public:
  explicit NormImpl(const ModelConfig& config);

  /// x (..., C) -> (..., C)
  torch::Tensor forward(const torch::Tensor& x);

  /// x + delta, and its norm; without delta x and its norm. For a float32 stream on the CPU in one
  /// pass over memory each way, which adds up the gradients of the two as well; else plain().
  NormedSum add(const torch::Tensor& x, const torch::Tensor& delta = {});

  /// The same through LibTorch's operators: what the fast path is tested against.
  NormedSum plain(const torch::Tensor& x, const torch::Tensor& delta = {});

  torch::Tensor weight;  ///< (C), 1 at the start
  torch::Tensor bias;    ///< (C), 0 at the start; undefined for rms_norm and without `bias`

 private:
  Norm kind_;
  double epsilon_;
};
TORCH_MODULE_IMPL(NormLayer, NormImpl);

}  // namespace tril
