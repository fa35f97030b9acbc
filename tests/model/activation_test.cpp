// The fast activations against the exact functions, in double, and against LibTorch's.

#include <torch/torch.h>

#include <limits>

#include "../../src/model/activation_kernel.h"
#include "../../src/model/bf16_rounding.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "tril/model/activation.h"

namespace tril {
namespace {

constexpr Activation kAll[] = {
    Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kReluSquared};

TEST_CASE("activation kernels: value and derivative equal the exact ones in double", "[model]") {
  // Odd length: the vector loop's rest is covered; the range covers both tails.
  const torch::Tensor x = torch::linspace(-12, 12, 10007, torch::kFloat32);
  for (const Activation activation : kAll) {
    INFO(enum_name(activation));
    torch::Tensor exact = x.to(torch::kFloat64).requires_grad_(true);
    const torch::Tensor value = activate_plain(exact, activation);
    value.sum().backward();
    for (const auto kernel :
         {activation_kernel<float>(activation), activation_kernel_portable<float>(activation)}) {
      torch::Tensor y = torch::empty_like(x), dy = torch::empty_like(x);
      kernel(x.const_data_ptr<float>(),
             y.mutable_data_ptr<float>(),
             dy.mutable_data_ptr<float>(),
             x.numel());
      CHECK_CLOSE(y, value, 2e-6);  // a few roundings of float32
      CHECK_CLOSE(dy, exact.grad(), 2e-6);
    }
  }
}

TEST_CASE("runs of numbers are rounded to bfloat16 as LibTorch does it", "[model]") {
  torch::manual_seed(7);
  for (const int64_t n : {0, 1, 15, 16, 17, 1000}) {
    torch::Tensor x = torch::randn({n}) * torch::randn({n}).mul(20).exp();
    if (n > 4) {
      const float kHalfway = 1.00390625F;  // between two bfloat16 numbers: to the even one
      x[0] = kHalfway;
      x[1] = 1.01171875F;
      x[2] = std::numeric_limits<float>::infinity();
      x[3] = std::numeric_limits<float>::quiet_NaN();
      x[4] = 3.4e38F;  // rounds to infinity
    }
    const torch::Tensor expected = x.to(torch::kBFloat16);
    for (const auto round :
         {static_cast<void (*)(const float*, Bf16*, int64_t)>(store_all), store_all_portable}) {
      torch::Tensor y = torch::full({n + 1}, 7.0, torch::kBFloat16);
      round(x.const_data_ptr<float>(), static_cast<Bf16*>(y.mutable_data_ptr()), n);
      CHECK(torch::allclose(y.narrow(0, 0, n), expected, 0, 0, /*equal_nan=*/true));
      CHECK(y[n].item<float>() == 7.0F);
    }
  }
}

TEST_CASE("activate gives LibTorch's values and gradients, for any shape and type", "[model]") {
  torch::manual_seed(1);
  for (const Activation activation : kAll) {
    INFO(enum_name(activation));
    for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
      for (const bool contiguous : {true, false}) {
        torch::Tensor base = torch::randn({3, 700, 11}, dtype) * 3;
        if (!contiguous) base = base.transpose(0, 1);
        const torch::Tensor a = base.detach().requires_grad_(true);
        const torch::Tensor b = base.detach().requires_grad_(true);
        const torch::Tensor fast = activate(a, activation), plain = activate_plain(b, activation);
        const double tolerance =
            dtype == torch::kBFloat16 ? testing::kBf16Tolerance : testing::kFp32Tolerance;
        CHECK_CLOSE(fast, plain, tolerance);
        (fast * fast).sum().backward();
        (plain * plain).sum().backward();
        CHECK_CLOSE(a.grad(), b.grad(), tolerance);
      }
    }
    const torch::Tensor x = torch::randn({5, 300});  // no gradient is wanted
    CHECK_CLOSE(activate(x, activation), activate_plain(x, activation), testing::kFp32Tolerance);
  }
}

}  // namespace
}  // namespace tril
