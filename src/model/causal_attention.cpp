#include "tril/model/causal_attention.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/base/counter_random.h"
#include "tril/model/short_attention.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows [first, first + rows) of the attention weights over columns [0, first + rows).
/// (B, H, rows, columns)
torch::Tensor block_weights(const torch::Tensor& q,
                            const torch::Tensor& k,
                            int64_t first,
                            int64_t rows) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  const int64_t columns = first + rows;
  torch::Tensor scores =
      q.narrow(2, first, rows).matmul(k.narrow(2, 0, columns).transpose(-2, -1)).mul_(scale);
  // Only the last `rows` columns hold future positions: the square on the diagonal.
  const auto future = torch::ones({rows, rows}, q.options().dtype(torch::kBool)).triu(1);
  scores.narrow(3, first, rows).masked_fill_(future, -std::numeric_limits<double>::infinity());
  return torch::softmax(scores, /*dim=*/-1);
}

class BlockedAttention : public torch::autograd::Function<BlockedAttention> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& q,
                               const torch::Tensor& k,
                               const torch::Tensor& v,
                               double dropout,
                               int64_t seed) {
    ctx->save_for_backward({q, k, v});
    ctx->saved_data["dropout"] = dropout;
    ctx->saved_data["seed"] = seed;
    const int64_t n_positions = q.size(2);
    torch::Tensor out = torch::empty_like(q, at::MemoryFormat::Contiguous);  // (B, H, T, D)
    for (int64_t first = 0, block = 0; first < n_positions; first += kAttentionBlockRows, ++block) {
      const int64_t rows = std::min(kAttentionBlockRows, n_positions - first);
      torch::Tensor weights = block_weights(q, k, first, rows);
      weights.mul_(attention_dropout_mask(
          weights.sizes(), weights.options(), dropout, static_cast<uint64_t>(seed), block));
      out.narrow(2, first, rows).copy_(weights.matmul(v.narrow(2, 0, first + rows)));
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const double dropout = ctx->saved_data["dropout"].toDouble();
    const auto seed = static_cast<uint64_t>(ctx->saved_data["seed"].toInt());
    const torch::Tensor& grad = grad_outputs[0];  // (B, H, T, D)
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
    const int64_t n_positions = q.size(2);

    torch::Tensor dq = torch::empty_like(q);
    torch::Tensor dk = torch::zeros_like(k);
    torch::Tensor dv = torch::zeros_like(v);
    for (int64_t first = 0, block = 0; first < n_positions; first += kAttentionBlockRows, ++block) {
      const int64_t rows = std::min(kAttentionBlockRows, n_positions - first);
      const int64_t columns = first + rows;
      const torch::Tensor weights = block_weights(q, k, first, rows);  // (B, H, rows, columns)
      const torch::Tensor mask =
          attention_dropout_mask(weights.sizes(), weights.options(), dropout, seed, block);
      const torch::Tensor d_out = grad.narrow(2, first, rows);  // (B, H, rows, D)
      dv.narrow(2, 0, columns).add_((weights * mask).transpose(-2, -1).matmul(d_out));
      const torch::Tensor d_weights =
          d_out.matmul(v.narrow(2, 0, columns).transpose(-2, -1)).mul_(mask);
      // Softmax: dS = P * (dP - sum(dP * P)); masked entries have P = 0.
      const torch::Tensor row_sum = (d_weights * weights).sum(-1, /*keepdim=*/true);
      const torch::Tensor d_scores = (d_weights - row_sum).mul_(weights).mul_(scale);
      dq.narrow(2, first, rows).copy_(d_scores.matmul(k.narrow(2, 0, columns)));
      dk.narrow(2, 0, columns).add_(d_scores.transpose(-2, -1).matmul(q.narrow(2, first, rows)));
    }
    return {dq, dk, dv, torch::Tensor(), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor attention_dropout_mask(at::IntArrayRef shape,
                                     const torch::TensorOptions& options,
                                     double dropout,
                                     uint64_t seed,
                                     int64_t block) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      random_bits(seed, RandomStream::kDropout, static_cast<uint64_t>(block)));
  torch::Tensor mask = torch::empty(shape, options);
  mask.bernoulli_(1.0 - dropout, generator);
  return mask.div_(1.0 - dropout);
}

torch::Tensor blocked_attention(const torch::Tensor& q,
                                const torch::Tensor& k,
                                const torch::Tensor& v,
                                double dropout,
                                uint64_t seed) {
  return BlockedAttention::apply(q, k, v, dropout, static_cast<int64_t>(seed));
}

torch::Tensor causal_attention(const torch::Tensor& q,
                               const torch::Tensor& k,
                               const torch::Tensor& v,
                               double dropout) {
  if (dropout > 0.0 && q.device().is_cpu()) {
    // The default generator is seeded from (seed, step, micro-step), so this draw is reproducible.
    auto generator = at::globalContext().defaultGenerator(at::kCPU);
    uint64_t seed = 0;
    {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      seed = generator.get<at::CPUGeneratorImpl>()->random64();
    }
    return blocked_attention(q, k, v, dropout, seed);
  }
  if (dropout == 0.0 && is_short_attention(q)) return short_attention(q, k, v);
  return torch::scaled_dot_product_attention(
      q, k, v, /*attn_mask=*/{}, dropout, /*is_causal=*/true);
}

}  // namespace tril
