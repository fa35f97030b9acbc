#include "tril/model/block.h"

namespace tril {

BlockImpl::BlockImpl(const ModelConfig& config, const AttentionTables& tables)
    : dropout_(config.dropout) {
  ln1 = register_module("ln1", NormLayer(config));
  attn = register_module("attn", MultiHeadAttention(config, tables));
  ln2 = register_module("ln2", NormLayer(config));
  ffn = register_module("ffn", FeedForward(config));
}

Residual BlockImpl::forward(const Residual& in) {
  const auto [x, to_attn] = ln1->add(in.x, in.delta);
  const auto [h, to_ffn] = ln2->add(x, residual_dropout(attn(to_attn)));
  return {h, residual_dropout(ffn(to_ffn))};
}

torch::Tensor BlockImpl::forward_cached(const torch::Tensor& x, BlockCache& cache, int64_t length) {
  const torch::Tensor h = x + attn->forward_cached(ln1(x), cache, length);
  return h + ffn(ln2(h));
}

torch::Tensor BlockImpl::residual_dropout(const torch::Tensor& x) const {
  return dropout_ > 0.0 ? torch::dropout(x, dropout_, is_training()) : x;
}

}  // namespace tril
