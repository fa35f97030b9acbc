#pragma once
// Causal attention on the CPU, straight from the packed projection of all heads: the fast path of
// training and evaluation.

#include <torch/torch.h>

#include "tril/model/rotary.h"

namespace tril {

/// What happens between the projection and the output. Defaults: plain causal attention.
struct PackedAttentionOptions {
  int64_t n_head = 1;
  int64_t n_shift_head = 0;  ///< the first so many heads: shift_keys
  bool qk_norm = false;      ///< normalize_qk on queries and keys
  double norm_epsilon = 1e-5;
  RotaryTable rotary = {};  ///< undefined: no rotation
  double dropout = 0.0;     ///< probability of an attention weight to become 0
  uint64_t seed = 0;        ///< of the dropout mask; each head of each window draws its own
};

/// True for what packed_attention takes: float32 or bfloat16 on the CPU.
bool is_packed_attention(const torch::Tensor& qkv);

/// softmax(q k^T / sqrt(D), future masked) v for all heads. Norm, rotation, masked softmax and
/// dropout are done on a block of a head's rows while it is in the cache; computed in float32.
/// Beside the output one number per row and head is kept; the backward pass forms the weights
/// again.
///   qkv      (B, T, 3C) contiguous: queries of all heads, then keys, then values
///   returns  (B, T, C), of the type of qkv
torch::Tensor packed_attention(const torch::Tensor& qkv, const PackedAttentionOptions& options);

/// What dropout multiplies the attention weights by: 0 or 1 / (1 - dropout).
///   returns  (B, H, T, T)
torch::Tensor attention_dropout_mask(
    int64_t batch, int64_t n_head, int64_t n_positions, double dropout, uint64_t seed);

}  // namespace tril
