#include "tril/optim/gradient_norm.h"

namespace tril {

torch::Tensor rate_tensor(double rate, torch::Device device) {
  const auto type = device.is_cpu() ? torch::kFloat64 : torch::kFloat32;
  return torch::full({}, rate, torch::TensorOptions().dtype(type).device(device));
}

GradientNorm gradient_norm(const std::vector<torch::Tensor>& gradients,
                           double max_norm,
                           const torch::Tensor& loss_scale) {
  const torch::NoGradGuard no_grad;
  return gradient_norm_of(torch::stack(at::_foreach_norm(gradients)).norm(), max_norm, loss_scale);
}

GradientNorm gradient_norm_of(const torch::Tensor& norm,
                              double max_norm,
                              const torch::Tensor& loss_scale) {
  const torch::NoGradGuard no_grad;
  GradientNorm result;
  result.norm = loss_scale.defined() ? norm / loss_scale : norm;
  result.divisor =
      max_norm > 0.0 ? (result.norm / max_norm).clamp_min(1.0) : torch::ones_like(result.norm);
  if (loss_scale.defined()) result.divisor = result.divisor * loss_scale;
  result.found_inf = result.norm.isfinite().logical_not().to(torch::kFloat32);
  return result;
}

}  // namespace tril
