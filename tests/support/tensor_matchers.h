#pragma once
// Comparing tensors: the first difference is named with its index, both values and both shapes.

#include <torch/torch.h>

#include <cmath>
#include <sstream>
#include <string>

#include "support/catch.h"

namespace tril::testing {

/// Round-off of fp32 through a tiny model: sums of tens of products of numbers near 1.
inline constexpr double kFp32Tolerance = 1e-5;
/// bf16 has 8 bits of mantissa: 2^-8 relative, a few roundings deep.
inline constexpr double kBf16Tolerance = 2e-2;

/// Empty when |a - b| <= tolerance * max(1, |b|) everywhere (NaN never is); else a description.
inline std::string first_difference(const torch::Tensor& a,
                                    const torch::Tensor& b,
                                    double tolerance) {
  std::ostringstream out;
  if (a.sizes() != b.sizes()) {
    out << "shapes differ: " << a.sizes() << " and " << b.sizes();
    return out.str();
  }
  const auto x = a.detach().to(torch::kFloat64).contiguous().view(-1);
  const auto y = b.detach().to(torch::kFloat64).contiguous().view(-1);
  const auto* px = x.const_data_ptr<double>();
  const auto* py = y.const_data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const bool close = std::abs(px[i] - py[i]) <= tolerance * std::max(1.0, std::abs(py[i]));
    if (close || px[i] == py[i]) continue;
    out.precision(9);
    out << "flat index " << i << " of shape " << a.sizes() << ": " << px[i] << " and " << py[i]
        << " differ by " << std::abs(px[i] - py[i]) << ", tolerance " << tolerance;
    return out.str();
  }
  return {};
}

}  // namespace tril::testing

#define CHECK_CLOSE(a, b, tolerance) CHECK(tril::testing::first_difference(a, b, tolerance) == "")
