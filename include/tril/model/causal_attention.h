#pragma once
// Fused causal attention over all heads at once. Beyond short contexts the T x T weights are never
// held as a whole.

#include <torch/torch.h>

namespace tril {

/// softmax(q k^T / sqrt(D), future masked) v, with dropout of probability `dropout` on the weights.
///   q, k, v  (B, H, T, D)
///   returns  (B, H, T, D)
/// Training on the CPU up to T = kShortContext takes short_attention; otherwise, without dropout,
/// this is LibTorch's fused kernel. LibTorch's CPU kernel has no dropout and would fall back to T x
/// T without a word; there the CPU takes blocked_attention instead.
torch::Tensor causal_attention(const torch::Tensor& q,
                               const torch::Tensor& k,
                               const torch::Tensor& v,
                               double dropout);

/// Causal attention with dropout in blocks of query rows. Memory: one (B, H, block, T) block at a
/// time; the backward pass forms each block again, with the same dropout mask (a pure function of
/// `seed` and the block's number).
torch::Tensor blocked_attention(const torch::Tensor& q,
                                const torch::Tensor& k,
                                const torch::Tensor& v,
                                double dropout,
                                uint64_t seed);

/// The mask of one block of blocked_attention: 0 or 1 / (1 - dropout). (B, H, rows, columns)
torch::Tensor attention_dropout_mask(at::IntArrayRef shape,
                                     const torch::TensorOptions& options,
                                     double dropout,
                                     uint64_t seed,
                                     int64_t block);

inline constexpr int64_t kAttentionBlockRows = 128;

}  // namespace tril
