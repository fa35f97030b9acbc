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

/// Past the first `first` rows of c numbers.
template <typename Number>
Number* from_row(Number* p, int64_t first, int64_t c) {
  return p == nullptr ? nullptr : p + first * c;
}

/// Sum and norm together; x (rows, C) float32, delta and the norm float32 or bfloat16.
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
    torch::Tensor sum = delta ? torch::empty_like(x) : x;
    torch::Tensor y = torch::empty_like(x, x.options().dtype(type));
    const int64_t rows = x.numel() / x.size(-1);
    torch::Tensor mean = torch::empty({rows}, x.options()), factor = torch::empty_like(mean);
    const auto run = type == torch::kFloat32 ? forward_rows<float> : forward_rows<Bf16>;
    run(x,
        delta.value_or(torch::Tensor()),
        weight,
        bias.value_or(torch::Tensor()),
        is_centered,
        epsilon,
        sum,
        y,
        mean,
        factor);
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
    const torch::Tensor dsum =
        grad_outputs[0].defined() ? grad_outputs[0].contiguous() : torch::Tensor();
    TORCH_CHECK(grad_outputs[1].defined(), "FusedNorm: the norm must be used");
    const torch::Tensor dy = grad_outputs[1].contiguous();
    const bool is_narrow = dy.scalar_type() != torch::kFloat32;

    torch::Tensor dx = torch::empty_like(sum);
    torch::Tensor ddelta = has_delta && is_narrow ? torch::empty_like(dy) : torch::Tensor();
    const int64_t parts = (rows + kRowsPerPart - 1) / kRowsPerPart;
    torch::Tensor dweight = torch::zeros({parts, c}, sum.options());
    torch::Tensor dbias =
        ctx->saved_data["has_bias"].toBool() ? torch::zeros_like(dweight) : torch::Tensor();
    const auto run = is_narrow ? backward_rows<Bf16> : backward_rows<float>;
    run(saved, dy, dsum, ctx->saved_data["is_centered"].toBool(), dx, ddelta, dweight, dbias);
    if (has_delta && !is_narrow) ddelta = dx;
    return {dx,
            ddelta,
            dweight.sum(0),
            dbias.defined() ? dbias.sum(0) : torch::Tensor(),
            torch::Tensor(),
            torch::Tensor(),
            torch::Tensor()};
  }

 private:
  template <typename Number>
  static void forward_rows(const torch::Tensor& x,
                           const torch::Tensor& delta,
                           const torch::Tensor& weight,
                           const torch::Tensor& bias,
                           bool is_centered,
                           double epsilon,
                           torch::Tensor& sum,
                           torch::Tensor& y,
                           torch::Tensor& mean,
                           torch::Tensor& factor) {
    const int64_t c = x.size(-1), rows = x.numel() / c;
    const auto kernel = norm_kernels<Number>().forward;
    NormForward<Number> all{.x = numbers<float>(x),
                            .delta = numbers<Number>(delta),
                            .weight = numbers<float>(weight),
                            .bias = numbers<float>(bias),
                            .rows = rows,
                            .c = c,
                            .epsilon = static_cast<float>(epsilon),
                            .is_centered = is_centered,
                            .sum = delta.defined() ? numbers_to_write<float>(sum) : nullptr,
                            .y = numbers_to_write<Number>(y),
                            .mean = numbers_to_write<float>(mean),
                            .factor = numbers_to_write<float>(factor)};
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / c), [&](int64_t begin, int64_t end) {
      NormForward<Number> part = all;
      part.x = from_row(all.x, begin, c);
      part.delta = from_row(all.delta, begin, c);
      part.rows = end - begin;
      part.sum = from_row(all.sum, begin, c);
      part.y = from_row(all.y, begin, c);
      part.mean = all.mean + begin;
      part.factor = all.factor + begin;
      kernel(part);
    });
  }

  template <typename Number>
  static void backward_rows(const variable_list& saved,
                            const torch::Tensor& dy,
                            const torch::Tensor& dsum,
                            bool is_centered,
                            torch::Tensor& dx,
                            torch::Tensor& ddelta,
                            torch::Tensor& dweight,
                            torch::Tensor& dbias) {
    const int64_t c = dx.size(-1), rows = dx.numel() / c;
    const auto kernel = norm_kernels<Number>().backward;
    const NormBackward<Number> all{.sum = numbers<float>(saved[0]),
                                   .weight = numbers<float>(saved[1]),
                                   .mean = numbers<float>(saved[2]),
                                   .factor = numbers<float>(saved[3]),
                                   .dy = numbers<Number>(dy),
                                   .dsum = numbers<float>(dsum),
                                   .rows = rows,
                                   .c = c,
                                   .is_centered = is_centered,
                                   .dx = numbers_to_write<float>(dx),
                                   .ddelta = numbers_to_write<Number>(ddelta),
                                   .dweight = numbers_to_write<float>(dweight),
                                   .dbias = numbers_to_write<float>(dbias)};
    at::parallel_for(
        0, dweight.size(0), /*grain_size=*/1, [&](int64_t first_part, int64_t end_part) {
          for (int64_t p = first_part; p < end_part; ++p) {
            const int64_t begin = p * kRowsPerPart;
            NormBackward<Number> part = all;
            part.rows = std::min(kRowsPerPart, rows - begin);
            part.sum = from_row(all.sum, begin, c);
            part.mean = all.mean + begin;
            part.factor = all.factor + begin;
            part.dy = from_row(all.dy, begin, c);
            part.dsum = from_row(all.dsum, begin, c);
            part.dx = from_row(all.dx, begin, c);
            part.ddelta = from_row(all.ddelta, begin, c);
            part.dweight = from_row(all.dweight, p, c);
            part.dbias = from_row(all.dbias, p, c);
            kernel(part);
          }
        });
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
