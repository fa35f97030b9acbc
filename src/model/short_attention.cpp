#include "tril/model/short_attention.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "attention_kernel.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// (B, H, T, D) in any layout -> (B*H, T, D) contiguous.
torch::Tensor merge_batch(const torch::Tensor& x) {
  return x.reshape({-1, x.size(2), x.size(3)});
}

class ShortAttention : public torch::autograd::Function<ShortAttention> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& q,
                               const torch::Tensor& k,
                               const torch::Tensor& v) {
    const torch::Tensor q3 = merge_batch(q), k3 = merge_batch(k), v3 = merge_batch(v);
    const int64_t t = q3.size(1);
    const float scale = 1.0F / std::sqrt(static_cast<float>(q3.size(2)));
    const torch::Tensor weights = torch::bmm(q3, k3.transpose(1, 2));  // (B*H, T, T)
    auto* data = weights.mutable_data_ptr<float>();
    const auto kernel = causal_softmax_kernels().forward;
    at::parallel_for(0, weights.size(0), /*grain_size=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) kernel(data + i * t * t, t, scale);
    });
    ctx->save_for_backward({q3, k3, v3, weights});
    return torch::bmm(weights, v3).view({q.size(0), q.size(1), t, q.size(3)});
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &weights = saved[3];
    const torch::Tensor grad = merge_batch(grad_outputs[0]);  // (B*H, T, D)
    const int64_t t = q.size(1);
    const float scale = 1.0F / std::sqrt(static_cast<float>(q.size(2)));
    const torch::Tensor dv = torch::bmm(weights.transpose(1, 2), grad);
    const torch::Tensor d_scores = torch::bmm(grad, v.transpose(1, 2));  // dP, then dS in place
    auto* data = d_scores.mutable_data_ptr<float>();
    const auto* p = weights.const_data_ptr<float>();
    const auto kernel = causal_softmax_kernels().backward;
    at::parallel_for(0, d_scores.size(0), /*grain_size=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) kernel(data + i * t * t, p + i * t * t, t, scale);
    });
    const auto sizes = grad_outputs[0].sizes();
    return {torch::bmm(d_scores, k).view(sizes),
            torch::bmm(d_scores.transpose(1, 2), q).view(sizes),
            dv.view(sizes)};
  }
};

}  // namespace

bool is_short_attention(const torch::Tensor& q) {
  return q.device().is_cpu() && q.scalar_type() == torch::kFloat32 && q.size(2) <= kShortContext &&
         torch::GradMode::is_enabled() && q.requires_grad();
}

torch::Tensor short_attention(const torch::Tensor& q,
                              const torch::Tensor& k,
                              const torch::Tensor& v) {
  return ShortAttention::apply(q, k, v);
}

}  // namespace tril
