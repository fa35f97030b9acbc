#pragma once
// One layer of the model: attention moves information between positions, the feed-forward network
// works on each; both add to a residual stream.

#include <torch/torch.h>

#include "tril/config/model_config.h"
#include "tril/model/feed_forward.h"
#include "tril/model/multi_head_attention.h"
#include "tril/model/norm.h"

namespace tril {

/// The residual stream between two blocks, x + delta, not added up yet: the next norm does that
/// in its own pass.
struct Residual {
  torch::Tensor x;      ///< (B, T, C)
  torch::Tensor delta;  ///< (B, T, C) in the type of products; undefined: none

  torch::Tensor sum() const { return delta.defined() ? x + delta : x; }
};

/// Pre-norm block: x + attn(ln1(x)), then x + ffn(ln2(x)).
class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const ModelConfig& config, const AttentionTables& tables);

  Residual forward(const Residual& in);
  /// (B, T, C) -> (B, T, C)
  torch::Tensor forward(const torch::Tensor& x) { return forward(Residual{x, {}}).sum(); }
  bool has_dropout() const { return dropout_ > 0.0; }
  torch::Tensor forward_cached(const torch::Tensor& x, BlockCache& cache, int64_t length);

  NormLayer ln1{nullptr};
  MultiHeadAttention attn{nullptr};
  NormLayer ln2{nullptr};
  FeedForward ffn{nullptr};

 private:
  torch::Tensor residual_dropout(const torch::Tensor& x) const;
  double dropout_;
};
TORCH_MODULE(Block);

}  // namespace tril
