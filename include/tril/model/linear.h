#pragma once
// The linear map of heads, projections and feed-forwards.

#include <torch/torch.h>

namespace tril {

/// torch::linear with gradients, by the products of matrix_product.h where those are faster.
///   x        (..., in)
///   weight   (out, in)
///   bias     (out) or undefined
///   returns  (..., out), in autocast's type where that is on
torch::Tensor linear_map(const torch::Tensor& x,
                         const torch::Tensor& weight,
                         const torch::Tensor& bias = {});

/// torch::nn::Linear, with the bias added inside the product. LibTorch's C++ form adds it to the
/// result of (B, T, C) inputs in a pass of its own, under autocast in float32 and with two copies.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;

  /// (..., in) -> (..., out)
  torch::Tensor forward(const torch::Tensor& x) { return linear_map(x, weight, bias); }
};
TORCH_MODULE(Linear);

}  // namespace tril
