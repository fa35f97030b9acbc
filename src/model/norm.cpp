#include "tril/model/norm.h"

namespace tril {

NormImpl::NormImpl(const ModelConfig& config) : kind_(config.norm), epsilon_(config.norm_epsilon) {
  weight = register_parameter("weight", torch::ones({config.n_embed}));
  if (kind_ == Norm::kLayerNorm && config.bias) {
    bias = register_parameter("bias", torch::zeros({config.n_embed}));
  }
}

torch::Tensor NormImpl::forward(const torch::Tensor& x) {
  if (kind_ == Norm::kLayerNorm) {
    return torch::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
  }
  return torch::rms_norm(x, weight.sizes(), weight, epsilon_);
}

}  // namespace tril
