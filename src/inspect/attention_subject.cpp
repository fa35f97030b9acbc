#include "tril/inspect/attention_check.h"
#include "tril/model/init.h"

namespace tril {
namespace {

BlockImpl& block_of(GPT& model, int64_t block) {
  return *model->blocks->ptr(static_cast<size_t>(block))->as<BlockImpl>();
}

HeadImpl& head_of(GPT& model, int64_t block, int64_t head) {
  return *block_of(model, block).attn->heads->ptr(static_cast<size_t>(head))->as<HeadImpl>();
}

}  // namespace

AttentionSubject subject_of(GPT& model, uint64_t fresh_seed) {
  AttentionSubject subject;
  subject.config = model->config();
  GPT* const m = &model;
  subject.logits = [m](const torch::Tensor& ids) { return (*m)->forward(ids); };
  subject.embedded = [m](const torch::Tensor& ids) {
    const torch::Tensor tokens = (*m)->token_embedding(ids);  // (B, T) -> (B, T, C)
    if ((*m)->position_embedding.is_empty()) return tokens;
    return tokens + (*m)->position_embedding->weight.narrow(0, 0, ids.size(1));  // + (T, C)
  };
  subject.normalized = [m](int64_t block, const torch::Tensor& x) {
    return block_of(*m, block).ln1(x);
  };
  subject.head = [m](int64_t block, int64_t head, const torch::Tensor& x) {
    return head_of(*m, block, head).attention(block_of(*m, block).ln1(x));
  };
  subject.projections = [m](int64_t block, int64_t head) {
    const HeadImpl& h = head_of(*m, block, head);
    return HeadProjections{.query = h.query->weight,
                           .key = h.key->weight,
                           .value = h.value->weight,
                           .query_bias = h.query->bias,
                           .key_bias = h.key->bias,
                           .value_bias = h.value->bias,
                           .shifted = h.shifted()};
  };
  subject.reference = [m](int64_t block, const torch::Tensor& x) {
    BlockImpl& b = block_of(*m, block);
    return b.attn->reference(b.ln1(x));
  };
  subject.fused = [m](int64_t block, const torch::Tensor& x) {
    BlockImpl& b = block_of(*m, block);
    return b.attn->fused(b.ln1(x));
  };
  subject.block = [m](int64_t block, const torch::Tensor& x) {
    return block_of(*m, block).forward(x);
  };
  subject.plus_attention = [m](int64_t block, const torch::Tensor& x) {
    BlockImpl& b = block_of(*m, block);
    return x + b.attn->proj(b.attn->reference(b.ln1(x)));
  };
  subject.plus_feed_forward = [m](int64_t block, const torch::Tensor& x) {
    BlockImpl& b = block_of(*m, block);
    return x + b.ffn(b.ln2(x));
  };
  subject.fresh_logits = [m, fresh_seed](const torch::Tensor& ids) {
    GPT fresh((*m)->config());
    initialize(fresh, fresh_seed);
    fresh->to(ids.device());
    fresh->eval();
    return fresh->forward(ids);
  };
  return subject;
}

}  // namespace tril
