#pragma once
// The linear map of heads, projections and feed-forwards.

#include <torch/torch.h>

namespace tril {

/// torch::nn::Linear, with the bias added inside the product. LibTorch's C++ form adds it to the
/// result of (B, T, C) inputs in a pass of its own, under autocast in float32 and with two copies.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  /// (..., in) -> (..., out)
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(x, weight, bias); }
};
TORCH_MODULE(Linear);

}  // namespace tril
