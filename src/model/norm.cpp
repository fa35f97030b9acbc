#include "tril/model/norm.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "norm_kernel.h"
#include "tril/base/vector_math.h"
#include "tril/model/autocast.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows that are summed to one part of the weight's gradient: fixed, so that the result does not
/// depend on the number of threads.
constexpr int64_t kRowsPerPart = 256;

/// The tensor's memory as numbers that the kernels know; null for an undefined one.
template <typename Number>
const Number* numbers(const torch::Tensor& x) {
  return x.defined() ? static_cast<const Number*>(x.const_data_ptr()) : nullptr;
}
template <typename Number>
Number* numbers_to_write(torch::Tensor& x) {
  return x.defined() ? static_cast<Number*>(x.mutable_data_ptr()) : nullptr;
}

/// Past the first `rows` rows of c numbers.
template <typename Number>
Number* after(Number* p, int64_t rows, int64_t c) {
  return p == nullptr ? nullptr : p + rows * c;
}

/// All rows, shared out among the threads.
template <typename Number>
void normalize_rows(const NormForward<Number>& all) {
  const auto kernel = norm_kernels<Number>().forward;
  const int64_t c = all.c;
  at::parallel_for(0, all.rows, std::max<int64_t>(1, 8192 / c), [&](int64_t begin, int64_t end) {
    NormForward<Number> part = all;
    part.rows = end - begin;
    part.x = after(all.x, begin, c);
    part.delta = after(all.delta, begin, c);
    part.sum = after(all.sum, begin, c);
    part.y = after(all.y, begin, c);
    part.mean = all.mean + begin;
    part.factor = all.factor + begin;
    kernel(part);
  });
}

/// All parts of kRowsPerPart rows, each with a row of its own in dweight and dbias.
template <typename Number>
void differentiate_rows(const NormBackward<Number>& all, int64_t parts) {
  const auto kernel = norm_kernels<Number>().backward;
  const int64_t c = all.c;
  at::parallel_for(0, parts, /*grain_size=*/1, [&](int64_t first_part, int64_t end_part) {
    for (int64_t p = first_part; p < end_part; ++p) {
      const int64_t begin = p * kRowsPerPart;
      NormBackward<Number> part = all;
      part.rows = std::min(kRowsPerPart, all.rows - begin);
      part.sum = after(all.sum, begin, c);
      part.mean = all.mean + begin;
      part.factor = all.factor + begin;
      part.dy = after(all.dy, begin, c);
      part.dsum = after(all.dsum, begin, c);
      part.dx = after(all.dx, begin, c);
      part.ddelta = after(all.ddelta, begin, c);
      part.dweight = after(all.dweight, p, c);
      part.dbias = after(all.dbias, p, c);
      kernel(part);
    }
  });
}

/// work(a number of this type): Bf16 or float.
template <typename Work>
void with_numbers(torch::ScalarType type, const Work& work) {
  type == torch::kBFloat16 ? work(Bf16{}) : work(float{});
}

/// Sum and norm together; x (..., C) float32, delta and the norm float32 or bfloat16.
class FusedNorm : public torch::autograd::Function<FusedNorm> {
 public:
  static variable_list forward(AutogradContext* ctx,
                               const torch::Tensor& x,
                               const std::optional<torch::Tensor>& delta,
                               const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias,
                               bool is_centered,
                               double epsilon,
                               torch::ScalarType type) {
    const int64_t c = x.size(-1), rows = x.numel() / c;
    torch::Tensor sum = delta ? torch::empty_like(x) : x;
    torch::Tensor y = torch::empty_like(x, x.options().dtype(type));
    torch::Tensor mean = torch::empty({rows}, x.options()), factor = torch::empty_like(mean);
    with_numbers(type, [&](auto number) {
      using Number = decltype(number);
      normalize_rows<Number>({.x = numbers<float>(x),
                              .delta = numbers<Number>(delta.value_or(torch::Tensor())),
                              .weight = numbers<float>(weight),
                              .bias = numbers<float>(bias.value_or(torch::Tensor())),
                              .rows = rows,
                              .c = c,
                              .epsilon = static_cast<float>(epsilon),
                              .is_centered = is_centered,
                              .sum = delta ? numbers_to_write<float>(sum) : nullptr,
                              .y = numbers_to_write<Number>(y),
                              .mean = numbers_to_write<float>(mean),
                              .factor = numbers_to_write<float>(factor)});
    });
    ctx->save_for_backward({sum, weight, mean, factor});
    ctx->saved_data["has_bias"] = bias.has_value();
    ctx->saved_data["has_delta"] = delta.has_value();
    ctx->saved_data["is_centered"] = is_centered;
    ctx->set_materialize_grads(false);
    return {sum, y};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const bool has_delta = ctx->saved_data["has_delta"].toBool();
    const torch::Tensor& sum = saved[0];
    const int64_t c = sum.size(-1), rows = sum.numel() / c;
    TORCH_CHECK(grad_outputs[1].defined(), "FusedNorm: the norm must be used");
    const torch::Tensor dy = grad_outputs[1].contiguous();
    const torch::Tensor dsum =
        grad_outputs[0].defined() ? grad_outputs[0].contiguous() : torch::Tensor();
    const bool is_narrow = dy.scalar_type() != torch::kFloat32;

    const int64_t parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
    torch::Tensor dx = torch::empty_like(sum), dweight = torch::zeros({parts, c}, sum.options()),
                  ddelta, dbias;
    if (has_delta && is_narrow) ddelta = torch::empty_like(dy);
    if (ctx->saved_data["has_bias"].toBool()) dbias = torch::zeros_like(dweight);
    with_numbers(dy.scalar_type(), [&](auto number) {
      using Number = decltype(number);
      differentiate_rows<Number>({.sum = numbers<float>(sum),
                                  .weight = numbers<float>(saved[1]),
                                  .mean = numbers<float>(saved[2]),
                                  .factor = numbers<float>(saved[3]),
                                  .dy = numbers<Number>(dy),
                                  .dsum = numbers<float>(dsum),
                                  .rows = rows,
                                  .c = c,
                                  .is_centered = ctx->saved_data["is_centered"].toBool(),
                                  .dx = numbers_to_write<float>(dx),
                                  .ddelta = numbers_to_write<Number>(ddelta),
                                  .dweight = numbers_to_write<float>(dweight),
                                  .dbias = numbers_to_write<float>(dbias)},
                                 parts);
    });
    if (has_delta && !is_narrow) ddelta = dx;
    return {dx,
            ddelta,
            dweight.sum(0),
            dbias.defined() ? dbias.sum(0) : torch::Tensor(),
            torch::Tensor(),
            torch::Tensor(),
            torch::Tensor()};
  }
};

bool is_fast(const torch::Tensor& x, const torch::Tensor& delta, torch::ScalarType type) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32 && x.is_contiguous() &&
         (type == torch::kFloat32 || type == torch::kBFloat16) &&
         (!delta.defined() || (delta.scalar_type() == type && delta.is_contiguous()));
}

std::optional<torch::Tensor> if_defined(const torch::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

NormImpl::NormImpl(const ModelConfig& config) : kind_(config.norm), epsilon_(config.norm_epsilon) {
  weight = register_parameter("weight", torch::ones({config.n_embed}));
  if (kind_ == Norm::kLayerNorm && config.bias) {
    bias = register_parameter("bias", torch::zeros({config.n_embed}));
  }
}

torch::Tensor NormImpl::forward(const torch::Tensor& x) {
  if (!is_fast(x, {}, torch::kFloat32)) return plain(x).normed;
  return FusedNorm::apply(x,
                          std::nullopt,
                          weight,
                          if_defined(bias),
                          kind_ == Norm::kLayerNorm,
                          epsilon_,
                          torch::kFloat32)[1];
}

NormedSum NormImpl::add(const torch::Tensor& x, const torch::Tensor& delta) {
  const torch::ScalarType type = product_type(x);
  if (!is_fast(x, delta, type)) return plain(x, delta);
  const auto both = FusedNorm::apply(
      x, if_defined(delta), weight, if_defined(bias), kind_ == Norm::kLayerNorm, epsilon_, type);
  return {both[0], both[1]};
}

NormedSum NormImpl::plain(const torch::Tensor& x, const torch::Tensor& delta) {
  const torch::Tensor sum = delta.defined() ? x + delta : x;
  return {sum,
          kind_ == Norm::kLayerNorm ? torch::layer_norm(sum, weight.sizes(), weight, bias, epsilon_)
                                    : torch::rms_norm(sum, weight.sizes(), weight, epsilon_)};
}

}  // namespace tril
