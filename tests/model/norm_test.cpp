// The fast norms, with and without the residual sum, against LibTorch's operators.

#include "tril/model/norm.h"

#include <torch/torch.h>

#include <vector>

#include "../../src/model/norm_kernel.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "tril/base/vector_math.h"
#include "tril/model/autocast.h"

namespace tril {
namespace {

NormLayer make_norm(Norm kind, bool bias, int64_t width) {
  ModelConfig config;
  config.norm = kind;
  config.bias = bias;
  config.n_embed = width;
  NormLayer norm(config);
  const torch::NoGradGuard no_grad;
  norm->weight.normal_();
  if (norm->bias.defined()) norm->bias.normal_();
  return norm;
}

/// Sum, norm, and the gradients of x, delta, weight and bias along two directions.
std::vector<torch::Tensor> values_and_gradients(NormLayer& norm,
                                                const torch::Tensor& x,
                                                const torch::Tensor& delta,
                                                bool fast) {
  const NormedSum found = fast ? norm->add(x, delta) : norm->plain(x, delta);
  torch::manual_seed(7);
  const torch::Tensor along_sum = torch::randn(x.sizes()).to(x.scalar_type()),
                      along_norm = torch::randn(x.sizes());
  std::vector<torch::Tensor> inputs{x, norm->weight};
  if (delta.defined()) inputs.push_back(delta);
  if (norm->bias.defined()) inputs.push_back(norm->bias);
  const auto gradients = torch::autograd::grad(
      {found.sum, found.normed}, inputs, {along_sum, along_norm.to(found.normed.scalar_type())});
  std::vector<torch::Tensor> result{found.sum, found.normed};
  result.insert(result.end(), gradients.begin(), gradients.end());
  return result;
}

TEST_CASE("a norm with its residual sum equals LibTorch's in double: values and gradients",
          "[model]") {
  const auto kind = GENERATE(Norm::kLayerNorm, Norm::kRmsNorm);
  const bool bias = GENERATE(true, false), has_delta = GENERATE(true, false);
  const int64_t rows = GENERATE(1, 3, 700);    // less than a part, several parts
  const int64_t width = GENERATE(5, 37, 300);  // less and more than a chunk
  CAPTURE(static_cast<int>(kind), bias, has_delta, rows, width);
  torch::manual_seed(1);
  NormLayer norm = make_norm(kind, bias, width);
  const torch::Tensor x = (torch::randn({rows, width}) * 3 + 1).requires_grad_(true);
  const torch::Tensor delta =
      has_delta ? torch::randn({rows, width}).requires_grad_(true) : torch::Tensor();
  const auto found = values_and_gradients(norm, x, delta, /*fast=*/true);

  NormLayer exact = make_norm(kind, bias, width);
  exact->weight.set_data(norm->weight.to(torch::kFloat64));
  if (bias && exact->bias.defined()) exact->bias.set_data(norm->bias.to(torch::kFloat64));
  const torch::Tensor exact_x = x.detach().to(torch::kFloat64).requires_grad_(true);
  const torch::Tensor exact_delta =
      has_delta ? delta.detach().to(torch::kFloat64).requires_grad_(true) : torch::Tensor();
  const auto expected = values_and_gradients(exact, exact_x, exact_delta, /*fast=*/false);
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("tensor " << i);
    const double scale = found[i].dim() == 1 ? static_cast<double>(rows) : 1.0;  // sums over rows
    CHECK_CLOSE(found[i] / scale, expected[i] / scale, testing::kFp32Tolerance);
  }
}

TEST_CASE("under autocast a norm writes bfloat16 and reads it as delta", "[model]") {
  const auto kind = GENERATE(Norm::kLayerNorm, Norm::kRmsNorm);
  torch::manual_seed(2);
  NormLayer norm = make_norm(kind, true, 300);
  const torch::Tensor x = torch::randn({600, 300}).requires_grad_(true);
  const torch::Tensor delta = torch::randn({600, 300}).to(torch::kBFloat16).requires_grad_(true);
  const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
  const auto found = values_and_gradients(norm, x, delta, /*fast=*/true);
  const auto expected = values_and_gradients(norm, x, delta, /*fast=*/false);
  CHECK(found[1].scalar_type() == torch::kBFloat16);
  CHECK(found[4].scalar_type() == torch::kBFloat16);  // delta's gradient
  CHECK(torch::equal(found[0], expected[0]));
  for (size_t i = 1; i < found.size(); ++i) {
    INFO("tensor " << i);
    const double scale = found[i].dim() == 1 ? 600.0 : 1.0;
    CHECK_CLOSE(found[i] / scale, expected[i] / scale, testing::kBf16Tolerance);
  }
  CHECK(norm->forward(x).scalar_type() == torch::kFloat32);
}

template <typename T>
void check_that_kernels_agree(torch::ScalarType type, double tolerance) {
  torch::manual_seed(3);
  const int64_t rows = 5, c = 290;
  const auto numbers = [](torch::Tensor& t) { return static_cast<T*>(t.mutable_data_ptr()); };
  const auto floats = [](torch::Tensor& t) { return t.mutable_data_ptr<float>(); };
  torch::Tensor x = torch::randn({rows, c}), w = torch::randn({c}), b = torch::randn({c}),
                dsum = torch::randn({rows, c}), delta = torch::randn({rows, c}).to(type),
                dy = torch::randn({rows, c}).to(type);
  for (const bool is_centered : {true, false}) {
    torch::Tensor results[2];
    for (const bool portable : {false, true}) {
      const auto kernels = portable ? norm_kernels_portable<T>() : norm_kernels<T>();
      torch::Tensor sum = torch::empty({rows, c}), y = torch::empty({rows, c}, type),
                    mean = torch::empty({rows}), r = torch::empty({rows}),
                    dx = torch::empty({rows, c}), ddelta = torch::empty({rows, c}, type),
                    dw = torch::ones({c}), db = torch::ones({c});
      kernels.forward({floats(x),
                       numbers(delta),
                       floats(w),
                       floats(b),
                       rows,
                       c,
                       1e-5F,
                       is_centered,
                       floats(sum),
                       numbers(y),
                       floats(mean),
                       floats(r)});
      kernels.backward({floats(sum),
                        floats(w),
                        floats(mean),
                        floats(r),
                        numbers(dy),
                        floats(dsum),
                        rows,
                        c,
                        is_centered,
                        floats(dx),
                        numbers(ddelta),
                        floats(dw),
                        floats(db)});
      results[portable] = torch::cat({sum.flatten(),
                                      y.flatten().to(torch::kFloat32),
                                      mean,
                                      r,
                                      dx.flatten(),
                                      ddelta.flatten().to(torch::kFloat32),
                                      dw,
                                      db});
    }
    CHECK_CLOSE(results[0], results[1], tolerance);
  }
}

TEST_CASE("norm kernels: this processor's and the portable ones agree", "[model]") {
  check_that_kernels_agree<float>(torch::kFloat32, 1e-5);
  check_that_kernels_agree<Bf16>(torch::kBFloat16, testing::kBf16Tolerance);
}

}  // namespace
}  // namespace tril
