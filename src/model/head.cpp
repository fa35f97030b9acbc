#include "tril/model/head.h"

#include <cmath>
#include <limits>

namespace tril {

AttentionTables make_attention_tables(const ModelConfig& config) {
  const int64_t t = config.context_length;
  AttentionTables tables;
  tables.tril = torch::ones({t, t}, torch::kBool).tril();
  if (config.positions == Positions::kRope) {
    tables.rotary = make_rotary_table(t, config.head_size(), config.rope_base);
  }
  return tables;
}

torch::Tensor normalize_qk(const torch::Tensor& x, double epsilon) {
  return torch::rms_norm(x, {x.size(-1)}, /*weight=*/{}, epsilon);
}

torch::Tensor shift_keys(const torch::Tensor& k, int64_t n_heads) {
  if (n_heads == 0) return k;
  const auto parts = k.split_with_sizes({n_heads, k.size(-3) - n_heads}, /*dim=*/-3);
  const torch::Tensor& late = parts[0];
  return torch::cat(
      {torch::cat({late.narrow(-2, 0, 1), late.narrow(-2, 0, k.size(-2) - 1)}, -2), parts[1]}, -3);
}

HeadImpl::HeadImpl(const ModelConfig& config, const AttentionTables& tables, const HeadPlace& place)
    : rotary_(tables.rotary),
      shifted_(place.shifted),
      qk_norm_(config.qk_norm),
      norm_epsilon_(config.norm_epsilon),
      dropout_(config.dropout) {
  const auto options =
      torch::nn::LinearOptions(config.n_embed, config.head_size()).bias(config.qkv_bias);
  query = register_module("query", Linear(options));
  key = register_module("key", place.group ? place.group->key : Linear(options));
  value = register_module("value", place.group ? place.group->value : Linear(options));
  tril = register_buffer("tril", tables.tril);  // a handle on the model's one mask
}

HeadAttention HeadImpl::attention(const torch::Tensor& x) {
  const int64_t n_positions = x.size(1);
  torch::Tensor q = query(x);        // (B, T, C) -> (B, T, D)
  torch::Tensor k = key(x);          // (B, T, C) -> (B, T, D)
  const torch::Tensor v = value(x);  // (B, T, C) -> (B, T, D)
  if (qk_norm_) {
    q = normalize_qk(q, norm_epsilon_);
    k = normalize_qk(k, norm_epsilon_);
  }
  if (rotary_.cos.defined()) {
    q = apply_rotary(q, rotary_);
    k = apply_rotary(k, rotary_);
  }
  if (shifted_) k = shift_keys(k.unsqueeze(-3), 1).squeeze(-3);

  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  torch::Tensor scores =
      q.matmul(k.transpose(-2, -1)) * scale;  // (B, T, D) x (B, D, T) -> (B, T, T)
  const auto mask = tril.narrow(0, 0, n_positions).narrow(1, 0, n_positions);  // (T, T)
  scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  const torch::Tensor weights = torch::softmax(scores, /*dim=*/-1);  // rows sum to 1
  const torch::Tensor kept = torch::dropout(weights, dropout_, is_training());
  return {weights, kept.matmul(v)};  // (B, T, T) x (B, T, D) -> (B, T, D)
}

}  // namespace tril
