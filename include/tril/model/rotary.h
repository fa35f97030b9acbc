#pragma once
// Rotary position embedding (Su et al. 2021), half-split form: dimension d is paired with d + D/2.

#include <torch/torch.h>

namespace tril {

/// Cosines and sines of position * base^(-2d/D): each (context_length, D/2) float. One pair per
/// model, whose storage all heads share; undefined when positions are learned.
struct RotaryTable {
  torch::Tensor cos;
  torch::Tensor sin;
};

RotaryTable make_rotary_table(int64_t context_length, int64_t head_size, double base);

/// Rotates queries or keys by their position, which counts from `first_position`.
///   x        (..., T, D)
///   returns  (..., T, D)
torch::Tensor apply_rotary(const torch::Tensor& x,
                           const RotaryTable& table,
                           int64_t first_position = 0);

}  // namespace tril
