#pragma once
// Normalisation of the last dimension: layer_norm or rms_norm, chosen by ModelConfig::norm.

#include <torch/torch.h>

#include "tril/config/model_config.h"

namespace tril {

/// y = x / sqrt(mean(x^2) + epsilon) * weight: in one pass over memory each way for float32 on the
/// CPU, else through LibTorch's operators.
///   x  (..., C)     weight  (C)     returns  (..., C)
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias      layer_norm (Ba et al. 2016)
/// y = x / sqrt(mean(x^2) + epsilon) * weight                rms_norm (Zhang and Sennrich 2019)
///   x        (..., C)
///   returns  (..., C)
class NormImpl : public torch::nn::Module {
 public:
  explicit NormImpl(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& x);

  torch::Tensor weight;  ///< (C), 1 at the start
  torch::Tensor bias;    ///< (C), 0 at the start; undefined for rms_norm and without `bias`

 private:
  Norm kind_;
  double epsilon_;
};
TORCH_MODULE_IMPL(NormLayer, NormImpl);

}  // namespace tril
