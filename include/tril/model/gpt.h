#pragma once
// The decoder-only model: Head -> MultiHeadAttention -> Block -> GPT.

#include <torch/torch.h>

#include "tril/config/model_config.h"
#include "tril/model/block.h"
#include "tril/model/kv_cache.h"
#include "tril/model/norm.h"
#include "tril/model/weight_lender.h"

namespace tril {

/// The last linear map. With tied embeddings it has no weight of its own: a second registered
/// handle would become a second tensor (LibTorch does not know shared parameters).
class LanguageModelHeadImpl : public torch::nn::Module {
 public:
  explicit LanguageModelHeadImpl(const ModelConfig& config);
  torch::Tensor weight;  ///< (padded V, C); undefined when tied
  torch::Tensor bias;    ///< (padded V); undefined without head_bias
};
TORCH_MODULE(LanguageModelHead);

/// token embedding + positions -> L blocks -> final norm -> head.
/// Source: Radford et al. 2019 (GPT-2); the variants are named in ModelConfig.
///   ids      (B, T) int64 in [0, vocab_size), 1 <= T <= context_length
class GPTImpl : public torch::nn::Module {
 public:
  /// `config.vocab_size` must be known (> 0). Weights are not set: see initialize().
  explicit GPTImpl(const ModelConfig& config);

  /// (B, T) -> (B, T, vocab_size) logits; padded ids are not among them.
  torch::Tensor forward(const torch::Tensor& ids);

  /// (B, T) -> (B, T, C): the states that the head reads.
  torch::Tensor forward_hidden(const torch::Tensor& ids);

  /// (..., C) -> (..., vocab_size)
  torch::Tensor logits(const torch::Tensor& hidden) const;

  /// The matrix and the bias (or undefined) of the head: (padded V, C), (padded V).
  torch::Tensor head_weight() const;
  torch::Tensor head_bias() const { return lm_head->bias; }

  /// A cache for `batch` sequences of up to `capacity` positions, with the weights packed.
  KvCache make_cache(int64_t batch, int64_t capacity) const;

  /// The next T ids of each sequence: (B, T) -> (B, T, C), appended to the cache.
  /// cache.length + T must not pass cache.capacity.
  torch::Tensor forward_cached(const torch::Tensor& ids, KvCache& cache);

  const ModelConfig& config() const { return config_; }

  /// In training each block but the last kept_blocks() keeps its input only and is computed again
  /// in the backward pass.
  void set_activation_checkpointing(bool on) { checkpoint_activations_ = on; }

  /// From now on each unit borrows its weights while it computes; training then needs activation
  /// checkpointing, and training_loss() for the head. The lender must outlive the model's use.
  /// None: the weights are always there.
  void set_weight_lender(WeightLender* lender) { weight_lender_ = lender; }
  /// Who lends the weights now; none: all are there.
  WeightLender* weight_lender() const {
    return weight_lender_ != nullptr && weight_lender_->is_lending() ? weight_lender_ : nullptr;
  }

  torch::nn::Embedding token_embedding{nullptr};     ///< (padded V, C)
  torch::nn::Embedding position_embedding{nullptr};  ///< (context_length, C); empty with rope
  torch::nn::ModuleList blocks{nullptr};
  NormLayer final_norm{nullptr};
  LanguageModelHead lm_head{nullptr};

 private:
  torch::Tensor embed(const torch::Tensor& ids, int64_t first_position);
  ModelConfig config_;
  bool checkpoint_activations_ = false;
  WeightLender* weight_lender_ = nullptr;
};
TORCH_MODULE(GPT);

/// With activation checkpointing, so many blocks at the end keep what they computed: a quarter of
/// L, rounded up. Without them a bf16 step on a CPU takes 1.37 times as long, with them 1.23 times.
int64_t kept_blocks(int64_t n_blocks);

}  // namespace tril
