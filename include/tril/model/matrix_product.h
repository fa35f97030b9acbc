#pragma once
// The three products of a linear map, without gradients, each by the faster of LibTorch's
// libraries.
//
// LibTorch gives float32 products on a CPU to MKL, which on other makers' processors uses vectors
// of half the width that they have; oneDNN, which LibTorch brings too, uses all of it, and adds a
// bias without a pass of its own. It is called where a processor has AVX-512: in float32 unless
// Intel made it, in bfloat16 where there are instructions for it. Everywhere else, and in other
// types, these are torch::linear and torch::mm.

#include <torch/torch.h>

namespace tril {

/// True where products of these numbers on this device go to oneDNN directly.
bool multiplies_directly(const torch::Tensor& x);

/// x w^T + bias: (..., in) x (out, in) + (out) -> (..., out); bias may be undefined. All of one
/// type.
torch::Tensor linear_product(const torch::Tensor& x,
                             const torch::Tensor& w,
                             const torch::Tensor& bias = {});

/// dy w, the gradient of x: (rows, out) x (out, in) -> (rows, in)
torch::Tensor input_gradient(const torch::Tensor& dy, const torch::Tensor& w);

/// dy^T x, the gradient of w: (out, rows) x (rows, in) -> (out, in)
torch::Tensor weight_gradient(const torch::Tensor& dy, const torch::Tensor& x);

/// Adds dy^T x to `sum`, (out, in), which may be of a wider type.
void add_weight_gradient(torch::Tensor& sum, const torch::Tensor& dy, const torch::Tensor& x);

/// Sums over rows, added up in float32: (rows, n) float32 or bfloat16 -> (n) float32. The same for
/// any number of threads.
torch::Tensor column_sums(const torch::Tensor& x);

/// (rows, n) float32 -> (n, rows), contiguous.
torch::Tensor transposed(const torch::Tensor& x);

}  // namespace tril
