#include "tril/model/activation.h"

#include <ATen/Parallel.h>

#include "activation_kernel.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 8192;  // elements per thread at least

template <typename T, typename Number>
void run_kernel(const torch::Tensor& x,
                Activation activation,
                torch::Tensor& y,
                torch::Tensor& dy) {
  const auto kernel = activation_kernel<Number>(activation);
  const auto* px = reinterpret_cast<const Number*>(x.const_data_ptr<T>());
  auto* py = reinterpret_cast<Number*>(y.mutable_data_ptr<T>());
  auto* pdy = reinterpret_cast<Number*>(dy.mutable_data_ptr<T>());
  at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    kernel(px + begin, py + begin, pdy + begin, end - begin);
  });
}

/// Value and derivative in one pass; float32 or bfloat16, contiguous, on the CPU.
class FusedActivation : public torch::autograd::Function<FusedActivation> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, const torch::Tensor& x, int64_t activation) {
    const auto which = static_cast<Activation>(activation);
    torch::Tensor y = torch::empty_like(x), dy = torch::empty_like(x);
    if (x.scalar_type() == torch::kFloat32) {
      run_kernel<float, float>(x, which, y, dy);
    } else {
      run_kernel<at::BFloat16, Bf16>(x, which, y, dy);
    }
    ctx->save_for_backward({dy});
    return y;
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
  const bool fast = activation != Activation::kRelu && x.device().is_cpu() &&
                    (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16) &&
                    x.is_contiguous() && torch::GradMode::is_enabled() && x.requires_grad();
  return fast ? FusedActivation::apply(x, static_cast<int64_t>(activation))
              : activate_plain(x, activation);
}

}  // namespace tril
