#include "tril/model/linear.h"

#include <optional>

#include "tril/model/autocast.h"
#include "tril/model/matrix_product.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class DirectLinear : public torch::autograd::Function<DirectLinear> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& x,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["has_bias"] = bias.has_value();
    return linear_product(x, weight, bias ? bias->to(x.scalar_type()) : torch::Tensor());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor &x = saved[0], &weight = saved[1];
    const torch::Tensor dy = grad_outputs[0].reshape({-1, weight.size(0)}).contiguous();
    torch::Tensor dx, dweight, dbias;
    if (ctx->needs_input_grad(0)) dx = input_gradient(dy, weight).view(x.sizes());
    if (ctx->needs_input_grad(1)) dweight = weight_gradient(dy, x.view({-1, weight.size(1)}));
    // A bias that is not there has no number: asking for it is an error.
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) dbias = column_sums(dy);
    return {dx, dweight, dbias};
  }
};

}  // namespace

torch::Tensor linear_map(const torch::Tensor& x,
                         const torch::Tensor& weight,
                         const torch::Tensor& bias) {
  const auto type = product_type(x);
  const torch::Tensor in = x.to(type);
  if (!multiplies_directly(in) || !in.is_contiguous()) return torch::linear(x, weight, bias);
  return DirectLinear::apply(in,
                             at::autocast::cached_cast(type, weight, x.device().type()),
                             bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace tril
