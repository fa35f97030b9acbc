#include "tril/model/rotary.h"

namespace tril {

RotaryTable make_rotary_table(int64_t context_length, int64_t head_size, double base) {
  const auto f64 = torch::TensorOptions().dtype(torch::kFloat64);
  const torch::Tensor pairs = torch::arange(0, head_size, 2, f64);               // (D/2)
  const torch::Tensor frequency = torch::pow(base, -pairs / double(head_size));  // (D/2)
  const torch::Tensor angle =
      torch::outer(torch::arange(context_length, f64), frequency);  // (context_length, D/2)
  return {angle.cos().to(torch::kFloat32), angle.sin().to(torch::kFloat32)};
}

torch::Tensor apply_rotary(const torch::Tensor& x,
                           const RotaryTable& table,
                           int64_t first_position) {
  const int64_t n_positions = x.size(-2);
  const auto cos =
      table.cos.narrow(0, first_position, n_positions).to(x.scalar_type());  // (T, D/2)
  const auto sin = table.sin.narrow(0, first_position, n_positions).to(x.scalar_type());
  const auto halves = x.chunk(2, /*dim=*/-1);
  const torch::Tensor& x1 = halves[0];  // (..., T, D/2)
  const torch::Tensor& x2 = halves[1];
  return torch::cat({x1 * cos - x2 * sin, x2 * cos + x1 * sin}, /*dim=*/-1);
}

}  // namespace tril
