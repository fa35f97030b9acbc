#pragma once
// H heads side by side, then a projection that mixes them. Two paths over one set of parameters.

#include <torch/torch.h>

#include "tril/config/model_config.h"
#include "tril/model/head.h"
#include "tril/model/kv_cache.h"
#include "tril/model/linear.h"

namespace tril {

/// Causal self-attention over H heads.
/// Source: Vaswani et al. 2017, section 3.2.2; scale 1/sqrt(D).
///   reference  each `Head` in turn, concatenated
///   fused      the heads' weights concatenated into one (3C, C) matrix, one multiplication, then
///              all heads' attention at once: packed_attention on the CPU, LibTorch's fused kernel
///              elsewhere. Same result (tests: outputs and every gradient).
///   x        (B, T, C) float, 1 <= T <= context_length
///   returns  (B, T, C)
class MultiHeadAttentionImpl : public torch::nn::Module {
 public:
  MultiHeadAttentionImpl(const ModelConfig& config, const AttentionTables& tables);

  torch::Tensor forward(const torch::Tensor& x);

  /// (B, T, C) -> (B, T, C): what `proj` reads; head h fills columns [h*D, (h+1)*D).
  torch::Tensor reference(const torch::Tensor& x);
  torch::Tensor fused(const torch::Tensor& x);

  /// The heads' weights in one matrix: rows are all queries, all keys, all values, each head by
  /// head. (3C, C); and the biases (3C), undefined when the heads have none.
  torch::Tensor packed_weight() const;
  torch::Tensor packed_bias() const;

  /// Attention of the next T positions to themselves and to all cached ones; appends to the cache.
  ///   x        (B, T, C), positions cache.length ... cache.length + T - 1
  ///   returns  (B, T, C)
  torch::Tensor forward_cached(const torch::Tensor& x, BlockCache& cache, int64_t length);

  torch::nn::ModuleList heads{nullptr};
  Linear proj{nullptr};  ///< (C -> C)

 private:
  struct QueryKeyValue {
    torch::Tensor q, k, v;  // (B, H, T, D) each
  };
  /// Queries and keys normalised and rotated where the model does so.
  ///   packed  (B, T, 3C) = x times packed_weight
  QueryKeyValue split(const torch::Tensor& packed, int64_t first_position) const;

  AttentionPath path_;
  int64_t n_head_;
  int64_t n_shift_head_;
  int64_t head_size_;
  RotaryTable rotary_;
  bool qk_norm_;
  double norm_epsilon_;
  double dropout_;
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace tril
