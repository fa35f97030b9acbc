#include "tril/model/activation.h"

#include <ATen/Parallel.h>

#include "activation_kernel.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 8192;  // elements per thread at least

template <typename Number>
void run_kernel(const torch::Tensor& x,
                Activation activation,
                torch::Tensor& y,
                torch::Tensor& dy) {
  const auto kernel = activation_kernel<Number>(activation);
  const auto* px = static_cast<const Number*>(x.const_data_ptr());
  auto* py = static_cast<Number*>(y.mutable_data_ptr());
  auto* pdy = dy.defined() ? static_cast<Number*>(dy.mutable_data_ptr()) : nullptr;
  at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    kernel(px + begin, py + begin, pdy == nullptr ? nullptr : pdy + begin, end - begin);
  });
}

/// Values, and derivatives where `dy` is defined, in one pass; float32 or bfloat16, contiguous, on
/// the CPU.
torch::Tensor values(const torch::Tensor& x, Activation activation, torch::Tensor dy = {}) {
  torch::Tensor y = torch::empty_like(x);
  if (x.scalar_type() == torch::kFloat32) {
    run_kernel<float>(x, activation, y, dy);
  } else {
    run_kernel<Bf16>(x, activation, y, dy);
  }
  return y;
}

class FusedActivation : public torch::autograd::Function<FusedActivation> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, int64_t activation) {
    const torch::Tensor dy = torch::empty_like(x);
    ctx->save_for_backward({dy});
    return values(x, static_cast<Activation>(activation), dy);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    return {grad_outputs[0] * ctx->get_saved_variables()[0], torch::Tensor()};
  }
};

}  // namespace

torch::Tensor activate_plain(const torch::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return torch::relu(x);
    case Activation::kGelu:
      return torch::gelu(x, "none");
    case Activation::kGeluTanh:
      return torch::gelu(x, "tanh");
    case Activation::kReluSquared:
      return torch::relu(x).square();
    case Activation::kSwiglu:
      break;
  }
  TORCH_CHECK(false, "activate: swiglu is not a function of one tensor");
}

torch::Tensor activate(const torch::Tensor& x, Activation activation) {
  // relu needs no derivative: LibTorch keeps its result, which is kept anyway.
  const bool is_fast = activation != Activation::kRelu && x.device().is_cpu() &&
                       x.is_contiguous() &&
                       (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
  if (!is_fast) return activate_plain(x, activation);
  return torch::GradMode::is_enabled() && x.requires_grad()
             ? FusedActivation::apply(x, static_cast<int64_t>(activation))
             : values(x, activation);
}

}  // namespace tril
