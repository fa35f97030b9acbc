#include "tril/optim/newton_schulz.h"

#include "tril/base/cpu.h"

namespace tril {

torch::Tensor newton_schulz(const torch::Tensor& x, torch::ScalarType dtype) {
  const bool is_tall = x.size(1) > x.size(2);  // A is then formed on the shorter side
  torch::Tensor y = is_tall ? x.transpose(1, 2) : x;
  y = (y / y.norm(2, {1, 2}, /*keepdim=*/true).clamp_min(1e-7)).to(dtype);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const torch::Tensor a = torch::bmm(y, y.transpose(1, 2));  // (N, r, r), r the shorter side
    const torch::Tensor polynomial = torch::baddbmm(a, a, a, /*beta=*/-4.7750, /*alpha=*/2.0315);
    y = torch::baddbmm(y, polynomial, y, /*beta=*/3.4445);
  }
  return is_tall ? y.transpose(1, 2) : y;
}

torch::ScalarType newton_schulz_dtype(MatrixPrecision precision, torch::Device device) {
  const bool is_fast = !device.is_cpu() || cpu_has_bf16_products();
  const bool bf16 =
      precision == MatrixPrecision::kAuto ? is_fast : precision == MatrixPrecision::kBf16;
  return bf16 ? torch::kBFloat16 : torch::kFloat32;
}

}  // namespace tril
