#include "tril/model/matrix_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "matrix_product_kernel.h"
#include "tril/base/cpu.h"

namespace tril {
namespace {

/// x w^T + bias by oneDNN: an operator that LibTorch's compiler for inference calls. It takes w,
/// and x, as they lie in memory, and gives a new tensor.
using ActivationNumbers = c10::List<std::optional<at::Scalar>>;
using Product = torch::Tensor(const torch::Tensor& x,
                              const torch::Tensor& w,
                              const std::optional<torch::Tensor>& bias,
                              std::string_view activation,
                              ActivationNumbers numbers,
                              std::optional<std::string_view> algorithm);

/// Nothing in a LibTorch that was built without oneDNN.
const std::optional<c10::TypedOperatorHandle<Product>>& direct_product() {
  static const auto found = [] {
    const auto handle =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", /*overload=*/""});
    return handle ? std::optional(handle->typed<Product>()) : std::nullopt;
  }();
  return found;
}

torch::Tensor multiply_directly(const torch::Tensor& x,
                                const torch::Tensor& w,
                                const torch::Tensor& bias) {
  return direct_product()->call(x,
                                w,
                                bias.defined() ? std::optional(bias) : std::nullopt,
                                /*activation=*/"none",
                                ActivationNumbers(),
                                /*algorithm=*/std::nullopt);
}

}  // namespace

bool multiplies_directly(const torch::Tensor& x) {
  static const bool in_float = cpu_has_avx512() && !cpu_is_intel();
  static const bool in_bf16 = cpu_has_avx512() && cpu_has_bf16_products();
  if (!x.device().is_cpu() || !direct_product()) return false;
  return x.scalar_type() == torch::kFloat32 ? in_float
                                            : x.scalar_type() == torch::kBFloat16 && in_bf16;
}

torch::Tensor linear_product(const torch::Tensor& x,
                             const torch::Tensor& w,
                             const torch::Tensor& bias) {
  if (!multiplies_directly(x)) return torch::linear(x, w, bias);
  return multiply_directly(x, w, bias);
}

torch::Tensor input_gradient(const torch::Tensor& dy, const torch::Tensor& w) {
  return multiplies_directly(dy) ? multiply_directly(dy, w.t(), {}) : torch::mm(dy, w);
}

torch::Tensor weight_gradient(const torch::Tensor& dy, const torch::Tensor& x) {
  // In bfloat16 LibTorch asks oneDNN itself, and that takes dy as it lies.
  if (!multiplies_directly(dy) || dy.scalar_type() != torch::kFloat32) {
    return torch::mm(dy.t(), x);
  }
  // The left matrix must lie row by row: one of the two is turned, and with x the result. The wider
  // one is, as products with many rows are the faster ones.
  if (dy.size(1) >= x.size(1)) return multiply_directly(transposed(dy), x.t(), {});
  return transposed(multiply_directly(transposed(x), dy.t(), {}));
}

void add_weight_gradient(torch::Tensor& sum, const torch::Tensor& dy, const torch::Tensor& x) {
  if (dy.scalar_type() == sum.scalar_type() && !multiplies_directly(dy)) {
    sum.addmm_(dy.t(), x);
  } else {
    sum.add_(weight_gradient(dy, x));
  }
}

torch::Tensor column_sums(const torch::Tensor& x) {
  const bool is_bf16 = x.scalar_type() == torch::kBFloat16;
  TORCH_CHECK(x.device().is_cpu() && (is_bf16 || x.scalar_type() == torch::kFloat32),
              "column_sums: float32 or bfloat16 on the CPU only");
  const torch::Tensor lines = x.contiguous();
  const int64_t rows = x.size(0), columns = x.size(1);
  torch::Tensor sums = torch::empty({columns}, x.options().dtype(torch::kFloat32));
  auto* const to = sums.mutable_data_ptr<float>();
  constexpr int64_t kLine = 64;  // columns that are not shared out, so that no cache line is
  const int64_t pieces = (columns + kLine - 1) / kLine;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, rows * kLine));
  at::parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kLine, n = std::min(columns, end * kLine) - first;
    const void* const data = lines.const_data_ptr();
    if (is_bf16) {
      column_sums_kernel<Bf16>()(
          static_cast<const Bf16*>(data) + first, columns, rows, n, to + first);
    } else {
      column_sums_kernel<float>()(
          static_cast<const float*>(data) + first, columns, rows, n, to + first);
    }
  });
  return sums;
}

torch::Tensor transposed(const torch::Tensor& x) {
  const torch::Tensor lines = x.contiguous();
  const int64_t rows = x.size(0), columns = x.size(1);
  torch::Tensor out = torch::empty({columns, rows}, x.options());
  const auto* const from = lines.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  constexpr int64_t kLine = 16;  // columns that are not shared out
  const int64_t pieces = (columns + kLine - 1) / kLine;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, rows * kLine));
  at::parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kLine, n = std::min(columns, end * kLine) - first;
    transpose_block(from + first, columns, rows, n, to + first * rows, rows);
  });
  return out;
}

}  // namespace tril
