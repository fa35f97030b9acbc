#include "tril/model/gpt.h"

#include <vector>

#include "tril/model/checkpointed_block.h"
#include "tril/model/linear.h"
#include "vocabulary_pieces.h"

namespace tril {

LanguageModelHeadImpl::LanguageModelHeadImpl(const ModelConfig& config) {
  const int64_t v = config.padded_vocab_size();
  if (!config.tie_embeddings) {
    weight = register_parameter("weight", torch::empty({v, config.n_embed}));
  }
  if (config.head_bias) bias = register_parameter("bias", torch::zeros({v}));
}

GPTImpl::GPTImpl(const ModelConfig& config) : config_(config) {
  TORCH_CHECK(config.vocab_size > 0, "GPT: vocab_size must be known");
  const AttentionTables tables = make_attention_tables(config);
  if (tables.rotary.cos.defined()) {  // registered here once, so that they move with the model
    register_buffer("rotary_cos", tables.rotary.cos);
    register_buffer("rotary_sin", tables.rotary.sin);
  }
  const auto embedding = [&](int64_t n) {
    // From an uninitialised tensor: the framework's own initialisation would be thrown away.
    return torch::nn::Embedding(
        torch::nn::EmbeddingOptions(n, config.n_embed)._weight(torch::empty({n, config.n_embed})));
  };
  token_embedding = register_module("token_embedding", embedding(config.padded_vocab_size()));
  if (config.positions == Positions::kLearned) {
    position_embedding = register_module("position_embedding", embedding(config.context_length));
  }
  blocks = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < config.n_blocks; ++i) blocks->push_back(Block(config, tables));
  final_norm = register_module("final_norm", NormLayer(config));
  lm_head = register_module("lm_head", LanguageModelHead(config));
}

torch::Tensor GPTImpl::embed(const torch::Tensor& ids, int64_t first_position) {
  const int64_t n_positions = ids.size(1);
  TORCH_CHECK(n_positions >= 1 && first_position + n_positions <= config_.context_length,
              "GPT: positions ",
              first_position,
              " to ",
              first_position + n_positions,
              " do not fit a context of ",
              config_.context_length);
  if (WeightLender* lender = weight_lender()) {
    const LendingUnits& units = lender->units();
    const torch::Tensor tokens = lookup_in_pieces(
        *lender, token_embedding->weight, units.tokens, ids, config_.tie_embeddings);
    if (position_embedding.is_empty()) return tokens;
    const torch::Tensor positions =
        torch::arange(first_position, first_position + n_positions, ids.options());
    return tokens + lookup_in_pieces(*lender,
                                     position_embedding->weight,
                                     units.positions,
                                     positions,
                                     /*sparse_gradient=*/false);  // + (T, C)
  }
  // A tied embedding's gradient is sparse: the few rows it has are added into the head's, which is
  // dense. As a tensor of its own it would be (V, C) zeros to fill and to add.
  const torch::Tensor tokens = torch::embedding(token_embedding->weight,
                                                ids,
                                                /*padding_idx=*/-1,
                                                /*scale_grad_by_freq=*/false,
                                                /*sparse=*/config_.tie_embeddings);
  if (position_embedding.is_empty()) return tokens;
  return tokens + position_embedding->weight.narrow(0, first_position, n_positions);  // + (T, C)
}

int64_t kept_blocks(int64_t n_blocks) {
  return (n_blocks + 3) / 4;
}

torch::Tensor GPTImpl::forward_hidden(const torch::Tensor& ids) {
  WeightLender* lender = weight_lender();
  Residual stream{embed(ids, /*first_position=*/0), {}};
  if (config_.dropout > 0.0) stream.x = torch::dropout(stream.x, config_.dropout, is_training());
  const bool keep_inputs_only =
      checkpoint_activations_ && is_training() && torch::GradMode::is_enabled();
  TORCH_CHECK(lender == nullptr || keep_inputs_only || !torch::GradMode::is_enabled(),
              "GPT: lent weights need activation checkpointing");
  for (size_t i = 0; i < blocks->size(); ++i) {
    Block block(blocks->ptr<BlockImpl>(i));
    const size_t unit = lender == nullptr ? 0 : lender->units().block(i);
    const BorrowedWeights borrowed(lender, unit);
    // The backward pass begins with the last blocks: what they keep is needed for the least time.
    const auto n_kept = lender == nullptr ? kept_blocks(config_.n_blocks) : 0;
    const bool is_kept = static_cast<int64_t>(i) >= config_.n_blocks - n_kept;
    stream = keep_inputs_only && !is_kept
                 ? Residual{checkpointed_forward(block, stream.sum(), lender, unit), {}}
                 : block->forward(stream);
  }
  return final_norm->add(stream.x, stream.delta).normed;
}

torch::Tensor GPTImpl::forward(const torch::Tensor& ids) {
  return logits(forward_hidden(ids));
}

torch::Tensor GPTImpl::logits(const torch::Tensor& hidden) const {
  WeightLender* lender = weight_lender();
  TORCH_CHECK(lender == nullptr || !torch::GradMode::is_enabled(),
              "GPT: the gradient of logits needs weights that are always there");
  const torch::Tensor weight = head_weight(), bias = head_bias();
  const torch::Tensor all =  // (..., C) -> (..., padded V)
      lender == nullptr ? linear_map(hidden, weight, bias)
                        : logits_in_pieces({*lender, weight, bias, config_.vocab_size}, hidden);
  return all.narrow(-1, 0, config_.vocab_size);  // -> (..., V)
}

torch::Tensor GPTImpl::head_weight() const {
  return config_.tie_embeddings ? token_embedding->weight : lm_head->weight;
}

KvCache GPTImpl::make_cache(int64_t batch, int64_t capacity) const {
  const torch::NoGradGuard no_grad;
  KvCache cache;
  cache.capacity = capacity;
  const auto options = token_embedding->weight.options().requires_grad(false);
  const auto room = [&](int64_t positions) {
    return torch::empty({batch, config_.n_head, positions, config_.head_size()}, options);
  };
  for (const auto& block : *blocks) {
    const auto& attn = block->as<BlockImpl>()->attn;
    cache.blocks.push_back(
        {attn->packed_weight(), attn->packed_bias(), room(capacity + 1), room(capacity)});
  }
  return cache;
}

torch::Tensor GPTImpl::forward_cached(const torch::Tensor& ids, KvCache& cache) {
  TORCH_CHECK(cache.length + ids.size(1) <= cache.capacity, "GPT: the key/value cache is full");
  torch::Tensor x = embed(ids, cache.length);
  for (size_t i = 0; i < blocks->size(); ++i) {
    x = blocks[i]->as<BlockImpl>()->forward_cached(x, cache.blocks[i], cache.length);
  }
  cache.length += ids.size(1);
  return final_norm(x);
}

}  // namespace tril
