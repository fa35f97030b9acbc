#include "tril/optim/gradient_norm.h"

namespace tril {

GradientNorm gradient_norm(const std::vector<torch::Tensor>& gradients, double max_norm) {
  const torch::NoGradGuard no_grad;
  return gradient_norm_of(torch::stack(at::_foreach_norm(gradients)).norm(), max_norm);
}

GradientNorm gradient_norm_of(const torch::Tensor& norm, double max_norm) {
  const torch::NoGradGuard no_grad;
  GradientNorm result;
  result.norm = norm;
  result.divisor =
      max_norm > 0.0 ? (result.norm / max_norm).clamp_min(1.0) : torch::ones_like(result.norm);
  result.found_inf = result.norm.isfinite().logical_not().to(torch::kFloat32);
  return result;
}

}  // namespace tril
