// The products of a linear map and its gradients against the same in double, in any shape.

#include "tril/model/matrix_product.h"

#include <torch/torch.h>

#include <cmath>

#include "../../src/model/matrix_product_kernel.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "tril/model/autocast.h"
#include "tril/model/linear.h"

namespace tril {
namespace {

struct Shape {
  int64_t rows, in, out;
};
constexpr Shape kShapes[] = {
    {1, 1, 1}, {1, 33, 5}, {17, 16, 65}, {64, 128, 3}, {300, 7, 96}, {5, 96, 300}, {1025, 65, 48}};

double tolerance_of(torch::ScalarType type) {
  return type == torch::kBFloat16 ? testing::kBf16Tolerance : testing::kFp32Tolerance;
}

/// Numbers near 1 / sqrt(n), so that sums of n products of them and numbers near 1 are near 1.
torch::Tensor numbers(int64_t rows, int64_t columns, int64_t n, torch::ScalarType type) {
  return (torch::randn({rows, columns}) / std::sqrt(static_cast<double>(n))).to(type);
}

torch::Tensor exact(const torch::Tensor& x) {
  return x.to(torch::kFloat64);
}

TEST_CASE("matrix products are those of double, in any shape and type", "[model]") {
  torch::manual_seed(2);
  const torch::NoGradGuard no_grad;
  for (const auto type : {torch::kFloat32, torch::kBFloat16, torch::kFloat64}) {
    const double tolerance = tolerance_of(type);
    for (const auto& [rows, in, out] : kShapes) {
      INFO(type << ", " << rows << " x " << in << " x " << out);
      const torch::Tensor x = numbers(rows, in, 1, type), w = numbers(out, in, in, type);
      const torch::Tensor bias = torch::randn({out}).to(type);
      CHECK_CLOSE(linear_product(x, w), exact(x).mm(exact(w).t()), tolerance);
      CHECK_CLOSE(linear_product(x, w, bias), exact(x).mm(exact(w).t()) + exact(bias), tolerance);
      CHECK_CLOSE(linear_product(x.view({rows, 1, in}), w),
                  exact(x).mm(exact(w).t()).view({rows, 1, out}),
                  tolerance);
      const torch::Tensor dy = numbers(rows, out, std::max(rows, out), type);
      CHECK_CLOSE(input_gradient(dy, w), exact(dy).mm(exact(w)), tolerance);
      const torch::Tensor dw = exact(dy).t().mm(exact(x));
      CHECK_CLOSE(weight_gradient(dy, x), dw, tolerance);
      CHECK(weight_gradient(dy, x).is_contiguous());
      torch::Tensor sum = torch::ones({out, in}, type == torch::kBFloat16 ? torch::kFloat32 : type);
      add_weight_gradient(sum, dy, x);
      CHECK_CLOSE(sum, dw + 1.0, tolerance);
    }
  }
}

TEST_CASE("column sums and transposition, in any shape", "[model]") {
  torch::manual_seed(3);
  for (const auto& [rows, in, out] : kShapes) {
    const int64_t columns = in * out;
    INFO(rows << " x " << columns);
    const torch::Tensor x = numbers(rows, columns, rows, torch::kFloat32);
    CHECK(torch::equal(transposed(x), x.t()));
    CHECK_CLOSE(column_sums(x), exact(x).sum(0), testing::kFp32Tolerance);
    const torch::Tensor narrow = x.to(torch::kBFloat16);
    CHECK_CLOSE(column_sums(narrow), exact(narrow).sum(0), testing::kFp32Tolerance);

    torch::Tensor portable = torch::empty({columns});
    column_sums_kernel_portable<float>()(
        x.const_data_ptr<float>(), columns, rows, columns, portable.mutable_data_ptr<float>());
    CHECK_CLOSE(column_sums(x), portable, testing::kFp32Tolerance);
  }
}

TEST_CASE("column sums do not depend on the number of threads", "[model]") {
  torch::manual_seed(4);
  const torch::Tensor x = torch::randn({1500, 700});
  const int before = torch::get_num_threads();
  torch::set_num_threads(1);
  const torch::Tensor alone = column_sums(x);
  torch::set_num_threads(3);
  const torch::Tensor shared = column_sums(x);
  torch::set_num_threads(before);
  CHECK(torch::equal(alone, shared));
}

TEST_CASE("linear gives torch::linear's values and gradients, under autocast too", "[model]") {
  torch::manual_seed(5);
  for (const auto precision : {torch::kFloat32, torch::kBFloat16}) {
    for (const bool has_bias : {true, false}) {
      INFO(precision << ", bias " << has_bias);
      const torch::Tensor x = torch::randn({3, 50, 20}),
                          weight = numbers(33, 20, 20, torch::kFloat32);
      const torch::Tensor bias = has_bias ? torch::randn({33}) : torch::Tensor();
      const torch::Tensor factors = torch::randn({3, 50, 33}) / 10;
      const auto run = [&](const auto& function) {
        std::vector<torch::Tensor> leaves{x.detach().clone(), weight.detach().clone()};
        if (has_bias) leaves.push_back(bias.detach().clone());
        for (torch::Tensor& leaf : leaves) leaf.requires_grad_(true);
        torch::Tensor y;
        {
          const AutocastGuard autocast(torch::kCPU, precision);
          y = function(leaves[0], leaves[1], has_bias ? leaves[2] : torch::Tensor());
        }
        CHECK(y.scalar_type() == precision);
        (y * factors).sum().backward();
        std::vector<torch::Tensor> result{y};
        for (const torch::Tensor& leaf : leaves) {
          CHECK(leaf.grad().scalar_type() == torch::kFloat32);
          result.push_back(leaf.grad());
        }
        return result;
      };
      const auto fast = run(linear_map), plain = run([](const auto&a, const auto&w, const auto&b) {
                                           return torch::linear(a, w, b);
                                         });
      for (size_t i = 0; i < plain.size(); ++i) {
        INFO("result " << i);
        CHECK_CLOSE(fast[i], plain[i], tolerance_of(precision));
      }
    }
  }
}

TEST_CASE("linear takes inputs that need no gradient, and ones that are not contiguous",
          "[model]") {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({4, 6, 8}), weight = torch::randn({5, 8});
  const torch::Tensor w = weight.detach().clone().requires_grad_(true);
  linear_map(x, w).sum().backward();
  CHECK_CLOSE(w.grad(), x.sum({0, 1}).expand({5, 8}), testing::kFp32Tolerance);
  CHECK_CLOSE(linear_map(x.transpose(0, 1), weight),
              torch::linear(x.transpose(0, 1), weight),
              testing::kFp32Tolerance);
  const torch::Tensor in = x.detach().clone().requires_grad_(true);
  linear_map(in, weight).sum().backward();
  CHECK_CLOSE(in.grad(), weight.sum(0).expand({4, 6, 8}), testing::kFp32Tolerance);
}

}  // namespace
}  // namespace tril
