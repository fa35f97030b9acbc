// AdamW's clipping, decay and protection against a poisoned update. The curve itself is compared
// with PyTorch's in golden_test.

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "tril/optim/adamw.h"

namespace tril {
namespace {

NamedTensor parameter(const std::string& name, torch::Tensor values) {
  return {name, values.requires_grad_(true)};
}

TEST_CASE("gradient norm, divisor and found_inf by hand", "[optim]") {
  // (3) and (4, 0): norm 5. Clipped to 2: divide by 2.5. Clipped to 10: not at all.
  const std::vector<torch::Tensor> gradients = {torch::tensor({3.0F}), torch::tensor({4.0F, 0.0F})};
  CHECK(gradient_norm(gradients, 2).norm.item<double>() == Approx(5));
  CHECK(gradient_norm(gradients, 2).divisor.item<double>() == Approx(2.5));
  CHECK(gradient_norm(gradients, 10).divisor.item<double>() == 1.0);
  CHECK(gradient_norm(gradients, 0).divisor.item<double>() == 1.0);
  CHECK(gradient_norm(gradients, 2).found_inf.item<double>() == 0.0);
  const GradientNorm scaled = gradient_norm(gradients, 0.1, /*loss_scale=*/torch::tensor(10.0F));
  CHECK(scaled.norm.item<double>() == Approx(0.5));
  CHECK(scaled.divisor.item<double>() == Approx(50));  // clips by 5, and takes the scale away
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    CHECK(gradient_norm({torch::tensor({bad})}, 1).found_inf.item<double>() == 1.0);
  }
}

TEST_CASE("the first step by hand: sign of the gradient times the rate, and decoupled decay",
          "[optim]") {
  OptimizerConfig config;
  config.weight_decay = 0.5;
  config.epsilon = 1e-12;
  auto matrix = parameter("matrix", torch::full({2, 2}, 2.0));
  auto vector = parameter("vector", torch::full({2}, 2.0));
  AdamW optimizer({matrix, vector}, config);
  matrix.tensor.mutable_grad() = torch::tensor({1.0F, -4.0F, 1.0F, -4.0F}).view({2, 2});
  vector.tensor.mutable_grad() = torch::tensor({1.0F, -4.0F});
  optimizer.step(0.1, gradient_norm(optimizer.gradients(), 0));
  // Bias-corrected moments of one step are g and g^2: the update is the sign. Decay acts on the
  // matrix only: 2 * (1 - 0.1 * 0.5) = 1.9.
  CHECK_CLOSE(matrix.tensor, torch::tensor({1.8, 2.0, 1.8, 2.0}).view({2, 2}), 1e-6);
  CHECK_CLOSE(vector.tensor, torch::tensor({1.9, 2.1}), 1e-6);
}

TEST_CASE("clipping is folded into the update: as if the gradients had been divided", "[optim]") {
  torch::Tensor results[2];
  for (int clipped = 0; clipped < 2; ++clipped) {
    OptimizerConfig config;
    auto p = parameter("p", torch::ones({3}));
    AdamW optimizer({p}, config);
    for (int step = 1; step <= 3; ++step) {
      torch::Tensor g = torch::tensor({3.0F, 4.0F, 0.0F}) * step;  // norm 5 * step
      p.tensor.mutable_grad() = clipped ? g : g / (5.0 * step);
      optimizer.step(0.1, gradient_norm(optimizer.gradients(), clipped ? 1.0 : 0.0));
    }
    results[clipped] = p.tensor.detach().clone();
  }
  CHECK_CLOSE(results[1], results[0], 1e-6);
}

TEST_CASE("a step with a non-finite gradient changes nothing at all", "[optim]") {
  auto p = parameter("p", torch::ones({2, 2}));
  AdamW optimizer({p}, OptimizerConfig());
  p.tensor.mutable_grad() = torch::ones({2, 2});
  optimizer.step(0.1, gradient_norm(optimizer.gradients(), 1));
  std::vector<torch::Tensor> before = {p.tensor.detach().clone()};
  for (const auto& [name, tensor] : optimizer.state()) before.push_back(tensor.clone());

  p.tensor.mutable_grad() = torch::full({2, 2}, std::nanf(""));
  optimizer.step(0.1, gradient_norm(optimizer.gradients(), 1));
  CHECK(torch::equal(p.tensor, before[0]));
  size_t i = 1;
  for (const auto& [name, tensor] : optimizer.state()) {
    INFO(name);
    CHECK(torch::equal(tensor, before[i++]));
  }
}

TEST_CASE("the optimizer's state has one name per moment, and restores by copying", "[optim]") {
  auto p = parameter("w", torch::ones({2, 2}));
  AdamW optimizer({p}, OptimizerConfig());
  p.tensor.mutable_grad() = torch::ones({2, 2});
  optimizer.step(0.1, gradient_norm(optimizer.gradients(), 0));
  const auto state = optimizer.state();
  REQUIRE(state.size() == 3);
  CHECK(state[0].name == "exp_avg.w");
  CHECK(state[1].name == "exp_avg_sq.w");
  CHECK(state[2].name == "step");
  CHECK(state[2].tensor.item<double>() == 1.0);

  auto q = parameter("w", p.tensor.detach().clone());
  AdamW restored({q}, OptimizerConfig());
  const auto fresh = restored.state();
  for (size_t i = 0; i < state.size(); ++i) fresh[i].tensor.copy_(state[i].tensor);
  for (AdamW* o : {&optimizer, &restored}) {
    auto& target = o == &optimizer ? p.tensor : q.tensor;
    target.mutable_grad() = torch::full({2, 2}, 0.5);
    o->step(0.1, gradient_norm(o->gradients(), 0));
  }
  CHECK(torch::equal(p.tensor, q.tensor));
}

}  // namespace
}  // namespace tril
