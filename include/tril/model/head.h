#pragma once
// One attention head, written out: the plain form that the fast path is tested against.

#include <torch/torch.h>

#include "tril/config/model_config.h"
#include "tril/model/linear.h"
#include "tril/model/rotary.h"

namespace tril {

/// What all heads of a model share: made once by GPT, never saved.
struct AttentionTables {
  torch::Tensor tril;  ///< (context_length, context_length) bool, true on and below the diagonal
  RotaryTable rotary;  ///< undefined when positions are learned
};

AttentionTables make_attention_tables(const ModelConfig& config);

/// A head's weights and what it reads with them.
struct HeadAttention {
  torch::Tensor weights;  ///< (B, T, T): row i says how much position i reads from each j <= i
  torch::Tensor output;   ///< (B, T, D)
};

class HeadImpl;

/// What a head of a model may differ in from its neighbours.
struct HeadPlace {
  /// The first head of its group, whose key and value this one shares (n_kv_head); none: its own.
  const HeadImpl* group = nullptr;
  bool shifted = false;  ///< shift_keys (n_shift_head)
};

/// Scaled dot-product attention of one head, T x T materialised.
/// Source: Vaswani et al. 2017, section 3.2.1.
///   x        (B, T, C) float, 1 <= T <= context_length
///   returns  (B, T, D)
class HeadImpl : public torch::nn::Module {
 public:
  HeadImpl(const ModelConfig& config, const AttentionTables& tables, const HeadPlace& place = {});

  torch::Tensor forward(const torch::Tensor& x) { return attention(x).output; }

  /// The same, with the attention weights (before dropout).
  HeadAttention attention(const torch::Tensor& x);

  bool shifted() const { return shifted_; }

  Linear query{nullptr};  ///< (C -> D): what am I looking for?
  Linear key{nullptr};    ///< (C -> D): what do I contain?
  Linear value{nullptr};  ///< (C -> D): what do I pass on if selected?
  torch::Tensor tril;     ///< the causal mask, shared by all heads

 private:
  RotaryTable rotary_;
  bool shifted_;
  bool qk_norm_;
  double norm_epsilon_;
  double dropout_;
};
TORCH_MODULE(Head);

/// Root-mean-square normalisation over D without a gain, as `qk_norm` applies it to q and k.
torch::Tensor normalize_qk(const torch::Tensor& x, double epsilon);

/// Every key of the first `n_heads` heads one position later; their first stays too. A query that
/// finds the key of position j then reads the value of j + 1: what came next.
///   k, returns  (..., H, T, D)
torch::Tensor shift_keys(const torch::Tensor& k, int64_t n_heads);

}  // namespace tril
