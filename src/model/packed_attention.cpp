#include "tril/model/packed_attention.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <memory>

#include "attention_kernel.h"
#include "tril/base/counter_random.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

uint32_t head_seed(uint64_t seed, int64_t window, int64_t head) {
  return static_cast<uint32_t>(random_bits(
      seed, RandomStream::kDropout, static_cast<uint64_t>(window), static_cast<uint64_t>(head)));
}

/// The same memory as numbers that the kernels know.
const Bf16* numbers(const at::BFloat16* p) {
  return reinterpret_cast<const Bf16*>(p);
}
Bf16* numbers(at::BFloat16* p) {
  return reinterpret_cast<Bf16*>(p);
}
template <typename T>
T* numbers(T* p) {
  return p;
}

/// Of a head whose keys are not shifted.
HeadShape head_shape(const torch::Tensor& qkv, const PackedAttentionOptions& options) {
  const int64_t c = qkv.size(2) / 3;
  HeadShape shape;
  shape.n_positions = qkv.size(1);
  shape.head_size = c / options.n_head;
  shape.qkv_stride = 3 * c;
  shape.out_stride = c;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_size));
  shape.qk_norm = options.qk_norm;
  shape.norm_epsilon = static_cast<float>(options.norm_epsilon);
  if (options.rotary.cos.defined()) {
    shape.cos = options.rotary.cos.const_data_ptr<float>();
    shape.sin = options.rotary.sin.const_data_ptr<float>();
  }
  shape.dropout = static_cast<float>(options.dropout);
  return shape;
}

/// Calls `work(shape, window, head, scratch)` for all of them, in parallel.
template <typename Work>
void for_each_head(const torch::Tensor& qkv,
                   const PackedAttentionOptions& options,
                   const Work& work) {
  const int64_t n_head = options.n_head;
  at::parallel_for(0, qkv.size(0) * n_head, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    HeadShape shape = head_shape(qkv, options);
    const std::unique_ptr<float[]> scratch(
        new float[static_cast<size_t>(head_scratch_size(shape))]);
    for (int64_t i = begin; i < end; ++i) {
      shape.key_shift = i % n_head < options.n_shift_head ? 1 : 0;
      work(shape, i / n_head, i % n_head, scratch.get());
    }
  });
}

template <typename T>
void forward_heads(const torch::Tensor& qkv,
                   const PackedAttentionOptions& options,
                   torch::Tensor& out,
                   torch::Tensor& log_sum) {
  const int64_t t = qkv.size(1), c = qkv.size(2) / 3, d = c / options.n_head;
  const auto* in = numbers(qkv.const_data_ptr<T>());
  auto* result = numbers(out.mutable_data_ptr<T>());
  auto* sums = log_sum.mutable_data_ptr<float>();
  using Number = std::remove_pointer_t<decltype(result)>;
  const auto forward = head_kernels<Number>(head_shape(qkv, options)).forward;
  for_each_head(
      qkv, options, [&](const HeadShape& shape, int64_t window, int64_t head, float* scratch) {
        const Number* q = in + window * t * 3 * c + head * d;
        forward({.shape = shape,
                 .seed = head_seed(options.seed, window, head),
                 .q = q,
                 .k = q + c,
                 .v = q + 2 * c,
                 .out = result + window * t * c + head * d,
                 .log_sum = sums + (window * options.n_head + head) * t,
                 .scratch = scratch});
      });
}

template <typename T>
void backward_heads(const torch::Tensor& qkv,
                    const PackedAttentionOptions& options,
                    const torch::Tensor& out,
                    const torch::Tensor& log_sum,
                    const torch::Tensor& grad,
                    torch::Tensor& dqkv) {
  const int64_t t = qkv.size(1), c = qkv.size(2) / 3, d = c / options.n_head;
  const auto* in = numbers(qkv.const_data_ptr<T>());
  const auto* result = numbers(out.const_data_ptr<T>());
  const auto* d_result = numbers(grad.const_data_ptr<T>());
  const auto* sums = log_sum.const_data_ptr<float>();
  auto* d_in = numbers(dqkv.mutable_data_ptr<T>());
  using Number = std::remove_pointer_t<decltype(d_in)>;
  const auto backward = head_kernels<Number>(head_shape(qkv, options)).backward;
  for_each_head(
      qkv, options, [&](const HeadShape& shape, int64_t window, int64_t head, float* scratch) {
        const int64_t at_qkv = window * t * 3 * c + head * d, at_out = window * t * c + head * d;
        const Number* q = in + at_qkv;
        Number* dq = d_in + at_qkv;
        backward({.shape = shape,
                  .seed = head_seed(options.seed, window, head),
                  .q = q,
                  .k = q + c,
                  .v = q + 2 * c,
                  .out = result + at_out,
                  .log_sum = sums + (window * options.n_head + head) * t,
                  .d_out = d_result + at_out,
                  .dq = dq,
                  .dk = dq + c,
                  .dv = dq + 2 * c,
                  .scratch = scratch});
      });
}

class PackedAttention : public torch::autograd::Function<PackedAttention> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& qkv,
                               const PackedAttentionOptions& options) {
    const int64_t b = qkv.size(0), t = qkv.size(1);
    torch::Tensor out = torch::empty({b, t, qkv.size(2) / 3}, qkv.options());
    torch::Tensor log_sum =
        torch::empty({b, options.n_head, t}, qkv.options().dtype(torch::kFloat32));
    if (qkv.scalar_type() == torch::kFloat32) {
      forward_heads<float>(qkv, options, out, log_sum);
    } else {
      forward_heads<at::BFloat16>(qkv, options, out, log_sum);
    }
    ctx->save_for_backward({qkv, out, log_sum, options.rotary.cos, options.rotary.sin});
    ctx->saved_data["n_head"] = options.n_head;
    ctx->saved_data["n_shift_head"] = options.n_shift_head;
    ctx->saved_data["qk_norm"] = options.qk_norm;
    ctx->saved_data["norm_epsilon"] = options.norm_epsilon;
    ctx->saved_data["dropout"] = options.dropout;
    ctx->saved_data["seed"] = static_cast<int64_t>(options.seed);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &qkv = saved[0], &out = saved[1], &log_sum = saved[2];
    const PackedAttentionOptions options{
        .n_head = ctx->saved_data["n_head"].toInt(),
        .n_shift_head = ctx->saved_data["n_shift_head"].toInt(),
        .qk_norm = ctx->saved_data["qk_norm"].toBool(),
        .norm_epsilon = ctx->saved_data["norm_epsilon"].toDouble(),
        .rotary = {saved[3], saved[4]},
        .dropout = ctx->saved_data["dropout"].toDouble(),
        .seed = static_cast<uint64_t>(ctx->saved_data["seed"].toInt())};
    const torch::Tensor grad = grad_outputs[0].contiguous();  // (B, T, C)
    torch::Tensor dqkv = torch::empty_like(qkv);
    if (qkv.scalar_type() == torch::kFloat32) {
      backward_heads<float>(qkv, options, out, log_sum, grad, dqkv);
    } else {
      backward_heads<at::BFloat16>(qkv, options, out, log_sum, grad, dqkv);
    }
    return {dqkv, torch::Tensor()};
  }
};

}  // namespace

bool is_packed_attention(const torch::Tensor& qkv) {
  return qkv.device().is_cpu() && qkv.is_contiguous() &&
         (qkv.scalar_type() == torch::kFloat32 || qkv.scalar_type() == torch::kBFloat16);
}

torch::Tensor packed_attention(const torch::Tensor& qkv, const PackedAttentionOptions& options) {
  TORCH_CHECK(is_packed_attention(qkv), "packed_attention: float32 or bfloat16 on the CPU only");
  return PackedAttention::apply(qkv, options);
}

torch::Tensor attention_dropout_mask(
    int64_t batch, int64_t n_head, int64_t n_positions, double dropout, uint64_t seed) {
  torch::Tensor mask = torch::empty({batch, n_head, n_positions, n_positions});
  auto* row = mask.mutable_data_ptr<float>();
  for (int64_t window = 0; window < batch; ++window) {
    for (int64_t head = 0; head < n_head; ++head) {
      for (int64_t i = 0; i < n_positions; ++i, row += n_positions) {
        attention_dropout_row(
            head_seed(seed, window, head), static_cast<float>(dropout), i, n_positions, row);
      }
    }
  }
  return mask;
}

}  // namespace tril
