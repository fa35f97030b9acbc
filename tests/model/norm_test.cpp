// The fast rms_norm against LibTorch's in float64.

#include "tril/model/norm.h"

#include <torch/torch.h>

#include "../../src/model/norm_kernel.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"

namespace tril {
namespace {

TEST_CASE("rms_norm equals LibTorch's in double: value and gradients", "[model]") {
  torch::manual_seed(1);
  for (const int64_t rows : {1, 3, 700}) {  // less than a part, several parts
    const torch::Tensor x = (torch::randn({rows, 37}) * 3).requires_grad_(true);
    const torch::Tensor weight = torch::randn({37}).requires_grad_(true);
    const torch::Tensor y = rms_norm(x, weight, 1e-5);
    const torch::Tensor plain =
        torch::rms_norm(x.to(torch::kFloat64), {37}, weight.to(torch::kFloat64), 1e-5);
    const torch::Tensor direction = torch::randn({rows, 37});
    CHECK_CLOSE(y, plain, 2e-6);
    const auto found = torch::autograd::grad({y}, {x, weight}, {direction});
    const auto expected =
        torch::autograd::grad({plain}, {x, weight}, {direction.to(torch::kFloat64)});
    CHECK_CLOSE(found[0], expected[0], testing::kFp32Tolerance);
    CHECK_CLOSE(found[1] / rows, expected[1] / rows, testing::kFp32Tolerance);
  }
}

TEST_CASE("rms_norm kernels: this processor's and the portable ones agree", "[model]") {
  torch::manual_seed(2);
  const int64_t rows = 5, c = 29;
  const torch::Tensor x = torch::randn({rows, c}), w = torch::randn({c}),
                      dy = torch::randn({rows, c});
  torch::Tensor results[2];
  for (int portable = 0; portable < 2; ++portable) {
    const auto kernels = portable ? rms_norm_kernels_portable() : rms_norm_kernels();
    torch::Tensor y = torch::empty({rows, c}), r = torch::empty({rows}),
                  dx = torch::empty({rows, c}), dw = torch::ones({c});
    kernels.forward(x.const_data_ptr<float>(),
                    w.const_data_ptr<float>(),
                    rows,
                    c,
                    1e-5F,
                    y.mutable_data_ptr<float>(),
                    r.mutable_data_ptr<float>());
    kernels.backward(x.const_data_ptr<float>(),
                     w.const_data_ptr<float>(),
                     r.const_data_ptr<float>(),
                     dy.const_data_ptr<float>(),
                     rows,
                     c,
                     dx.mutable_data_ptr<float>(),
                     dw.mutable_data_ptr<float>());
    results[portable] = torch::cat({y.flatten(), r, dx.flatten(), dw});
  }
  CHECK_CLOSE(results[0], results[1], 1e-5);
}

}  // namespace
}  // namespace tril
