#include "tril/model/norm.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "norm_kernel.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows that are summed to one part of the weight's gradient: fixed, so that the result does not
/// depend on the number of threads.
constexpr int64_t kRowsPerPart = 256;

/// rms_norm in one pass over memory each way; float32 on the CPU. x (rows, C), weight (C).
class FusedRmsNorm : public torch::autograd::Function<FusedRmsNorm> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& x,
                               const torch::Tensor& weight,
                               double epsilon) {
    const int64_t c = x.size(-1), rows = x.numel() / c;
    torch::Tensor y = torch::empty_like(x), r = torch::empty({rows}, x.options());
    const auto kernel = rms_norm_kernels().forward;
    const auto *px = x.const_data_ptr<float>(), *pw = weight.const_data_ptr<float>();
    auto *py = y.mutable_data_ptr<float>(), *pr = r.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / c), [&](int64_t begin, int64_t end) {
      kernel(px + begin * c,
             pw,
             end - begin,
             c,
             static_cast<float>(epsilon),
             py + begin * c,
             pr + begin);
    });
    ctx->save_for_backward({x, weight, r});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &x = saved[0], &weight = saved[1], &r = saved[2];
    const torch::Tensor dy = grad_outputs[0].contiguous();
    const int64_t c = x.size(-1), rows = x.numel() / c;
    const int64_t parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
    torch::Tensor dx = torch::empty_like(x), dw = torch::zeros({parts, c}, x.options());
    const auto kernel = rms_norm_kernels().backward;
    const auto *px = x.const_data_ptr<float>(), *pw = weight.const_data_ptr<float>(),
               *pr = r.const_data_ptr<float>(), *pdy = dy.const_data_ptr<float>();
    auto *pdx = dx.mutable_data_ptr<float>(), *pdw = dw.mutable_data_ptr<float>();
    at::parallel_for(0, parts, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = part * kRowsPerPart, n = std::min(kRowsPerPart, rows - first);
        const int64_t at = first * c;
        kernel(px + at, pw, pr + first, pdy + at, n, c, pdx + at, pdw + part * c);
      }
    });
    return {dx, dw.sum(0), torch::Tensor()};
  }
};

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon) {
  const bool fast = x.device().is_cpu() && x.scalar_type() == torch::kFloat32 && x.is_contiguous();
  return fast ? FusedRmsNorm::apply(x, weight, epsilon)
              : torch::rms_norm(x, weight.sizes(), weight, epsilon);
}

NormImpl::NormImpl(const ModelConfig& config) : kind_(config.norm), epsilon_(config.norm_epsilon) {
  weight = register_parameter("weight", torch::ones({config.n_embed}));
  if (kind_ == Norm::kLayerNorm && config.bias) {
    bias = register_parameter("bias", torch::zeros({config.n_embed}));
  }
}

torch::Tensor NormImpl::forward(const torch::Tensor& x) {
  if (kind_ == Norm::kLayerNorm) {
    return torch::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
  }
  return rms_norm(x, weight, epsilon_);
}

}  // namespace tril
