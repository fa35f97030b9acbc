#pragma once
// Causal attention for short contexts on the CPU: a few batched products and a fused masked
// softmax.

#include <torch/torch.h>

namespace tril {

/// Up to here the (T, T) weights of a head are smaller than its queries, keys and values times a
/// few, and three batched products are faster than LibTorch's flash kernel (T 64, D 32, fp32, two
/// cores: 0.6 of its time, forward and backward).
inline constexpr int64_t kShortContext = 128;

/// True for what short_attention takes: float32 on the CPU, T <= kShortContext, a gradient wanted.
bool is_short_attention(const torch::Tensor& q);

/// softmax(q k^T / sqrt(D), future masked) v; keeps the weights for its backward pass.
///   q, k, v  (B, H, T, D)
///   returns  (B, H, T, D)
torch::Tensor short_attention(const torch::Tensor& q,
                              const torch::Tensor& k,
                              const torch::Tensor& v);

}  // namespace tril
