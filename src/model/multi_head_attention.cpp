#include "tril/model/multi_head_attention.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <vector>

#include "tril/model/packed_attention.h"
#include "tril/model/step_phase.h"

namespace tril {
namespace {

/// From the default generator, which the trainer seeds from (seed, step, micro-step).
uint64_t draw_seed() {
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const ModelConfig& config,
                                               const AttentionTables& tables)
    : path_(config.attention),
      n_head_(config.n_head),
      n_shift_head_(config.n_shift_head),
      head_size_(config.head_size()),
      rotary_(tables.rotary),
      qk_norm_(config.qk_norm),
      norm_epsilon_(config.norm_epsilon),
      dropout_(config.dropout) {
  heads = register_module("heads", torch::nn::ModuleList());
  // Heads of one group share the key and value of its first; the packed matrices below repeat them.
  const int64_t group_size = n_head_ / config.kv_heads();
  const HeadImpl* group = nullptr;
  for (int64_t h = 0; h < n_head_; ++h) {
    const Head head(
        config, tables, HeadPlace{h % group_size == 0 ? nullptr : group, h < n_shift_head_});
    if (h % group_size == 0) group = head.get();
    heads->push_back(head);
  }
  proj = register_module(
      "proj", Linear(torch::nn::LinearOptions(config.n_embed, config.n_embed).bias(config.bias)));
}

torch::Tensor MultiHeadAttentionImpl::forward(const torch::Tensor& x) {
  return proj(path_ == AttentionPath::kReference ? reference(x) : fused(x));
}

torch::Tensor MultiHeadAttentionImpl::reference(const torch::Tensor& x) {
  std::vector<torch::Tensor> outputs;
  for (const auto& module : *heads) outputs.push_back(module->as<HeadImpl>()->forward(x));
  return torch::cat(outputs, /*dim=*/-1);  // H x (B, T, D) -> (B, T, C)
}

torch::Tensor MultiHeadAttentionImpl::fused(const torch::Tensor& x) {
  const double dropout = is_training() ? dropout_ : 0.0;
  const torch::Tensor qkv = linear_map(x, packed_weight(), packed_bias());  // -> (B, T, 3C)
  const StepPhase phase(kPhaseAttention);
  if (is_packed_attention(qkv)) {
    return packed_attention(qkv,
                            {.n_head = n_head_,
                             .n_shift_head = n_shift_head_,
                             .qk_norm = qk_norm_,
                             .norm_epsilon = norm_epsilon_,
                             .rotary = rotary_,
                             .dropout = dropout,
                             .seed = dropout > 0.0 ? draw_seed() : 0});
  }
  auto [q, k, v] = split(qkv, /*first_position=*/0);
  k = shift_keys(k, n_shift_head_);
  const torch::Tensor y =
      torch::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
  return y.transpose(1, 2).flatten(2);  // (B, H, T, D) -> (B, T, H, D) -> (B, T, C)
}

MultiHeadAttentionImpl::QueryKeyValue MultiHeadAttentionImpl::split(const torch::Tensor& packed,
                                                                    int64_t first_position) const {
  // unbind, not three selects: its backward is one stack, theirs three padded copies and two sums.
  const auto qkv = packed
                       .unflatten(-1, {3, n_head_, head_size_})  // (B, T, 3C) -> (B, T, 3, H, D)
                       .unbind(2);                               // -> 3 x (B, T, H, D)
  torch::Tensor q = qkv[0].transpose(1, 2);                      // -> (B, H, T, D)
  torch::Tensor k = qkv[1].transpose(1, 2);
  if (qk_norm_) {
    q = normalize_qk(q, norm_epsilon_);
    k = normalize_qk(k, norm_epsilon_);
  }
  if (rotary_.cos.defined()) {
    q = apply_rotary(q, rotary_, first_position);
    k = apply_rotary(k, rotary_, first_position);
  }
  return {q, k, qkv[2].transpose(1, 2)};
}

torch::Tensor MultiHeadAttentionImpl::packed_weight() const {
  std::vector<torch::Tensor> rows;
  rows.reserve(static_cast<size_t>(3 * n_head_));
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->query->weight);
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->key->weight);
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->value->weight);
  return torch::cat(rows, /*dim=*/0);  // 3H x (D, C) -> (3C, C)
}

torch::Tensor MultiHeadAttentionImpl::packed_bias() const {
  if (!heads->ptr(0)->as<HeadImpl>()->query->bias.defined()) return {};
  std::vector<torch::Tensor> rows;
  rows.reserve(static_cast<size_t>(3 * n_head_));
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->query->bias);
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->key->bias);
  for (const auto& head : *heads) rows.push_back(head->as<HeadImpl>()->value->bias);
  return torch::cat(rows, /*dim=*/0);  // 3H x (D) -> (3C)
}

torch::Tensor MultiHeadAttentionImpl::forward_cached(const torch::Tensor& x,
                                                     BlockCache& cache,
                                                     int64_t length) {
  const int64_t n_new = x.size(1);
  const auto [q, k, v] = split(linear_map(x, cache.qkv_weight, cache.qkv_bias), length);
  // A shifted head finds position j + 1 by the key of j, and the first position by its own.
  const int64_t n_shift = n_shift_head_, n_plain = n_head_ - n_shift_head_;
  cache.keys.narrow(1, n_shift, n_plain)
      .narrow(2, length, n_new)
      .copy_(k.narrow(1, n_shift, n_plain));
  if (n_shift > 0) {
    const torch::Tensor late = cache.keys.narrow(1, 0, n_shift);
    late.narrow(2, length + 1, n_new).copy_(k.narrow(1, 0, n_shift));
    if (length == 0) late.select(2, 0).copy_(k.narrow(1, 0, n_shift).select(2, 0));
  }
  cache.values.narrow(2, length, n_new).copy_(v);
  const torch::Tensor keys = cache.keys.narrow(2, 0, length + n_new);  // (B, H, length + T, D)
  const torch::Tensor values = cache.values.narrow(2, 0, length + n_new);

  torch::Tensor y;  // (B, H, T, D)
  if (length == 0) {
    y = torch::scaled_dot_product_attention(q, keys, v, {}, 0.0, /*is_causal=*/true);
  } else if (n_new == 1) {  // the one new position may see all
    y = torch::scaled_dot_product_attention(q, keys, values);
  } else {  // row i sees the cached positions and new ones up to itself
    const auto options = torch::TensorOptions().dtype(torch::kBool).device(x.device());
    const torch::Tensor mask = torch::ones({n_new, length + n_new}, options).tril(length);
    y = torch::scaled_dot_product_attention(q, keys, values, mask);
  }
  return proj(y.transpose(1, 2).flatten(2));  // (B, H, T, D) -> (B, T, C)
}

}  // namespace tril
