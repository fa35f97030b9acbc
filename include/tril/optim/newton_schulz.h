#pragma once
// The nearest orthogonal matrix, roughly: what Muon makes of a gradient.

#include <torch/torch.h>

#include "tril/config/optimizer_config.h"

namespace tril {

inline constexpr int kNewtonSchulzSteps = 5;

/// Each matrix X = U S V^T of a batch becomes U S' V^T, with the singular values S' between about
/// 0.7 and 1.2: five steps of the quintic iteration X <- aX + (bA + cA^2)X, A = X X^T, on X divided
/// by its norm; (a, b, c) = (3.4445, -4.7750, 2.0315). Only matrix products, so it runs in `dtype`:
/// bfloat16 does where it is fast (torch.optim.Muon's choice), float32 elsewhere.
/// Source: Jordan et al. 2024, "Muon". A matrix of zeros stays zero.
///   x        (N, r, c)
///   returns  (N, r, c) of `dtype`
torch::Tensor newton_schulz(const torch::Tensor& x, torch::ScalarType dtype);

/// What optimizer.matrix_precision stands for. kAuto: bfloat16 where products in it are the faster
/// ones, on GPUs and on CPUs with instructions for it, else float32; the same on every run of a
/// machine.
torch::ScalarType newton_schulz_dtype(MatrixPrecision precision, torch::Device device);

}  // namespace tril
