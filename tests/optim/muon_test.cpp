// Muon against torch.optim.Muon, and which parameter goes to which optimizer.

#include "tril/optim/muon.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "support/catch.h"
#include "support/golden.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/loss.h"
#include "tril/optim/newton_schulz.h"
#include "tril/optim/optimizer.h"

namespace tril {
namespace {

using testing::golden_tensor;
using testing::read_golden;

std::vector<NamedTensor> golden_matrices(const Json& golden) {
  std::vector<NamedTensor> matrices;
  for (const auto& [name, value] : golden.at("matrices").items()) {
    matrices.push_back({name, golden_tensor(value).requires_grad_(true)});
  }
  return matrices;
}

OptimizerConfig golden_config(const Json& golden,
                              MatrixPrecision precision = MatrixPrecision::kAuto) {
  OptimizerConfig config;
  config.matrix_precision = precision;
  config.momentum = golden.at("momentum").get<double>();
  config.weight_decay = golden.at("weight_decay").get<double>();
  return config;
}

TEST_CASE("three steps of Muon equal torch.optim.Muon and the same in double", "[optim][golden]") {
  const Json golden = read_golden("muon");
  for (const auto precision : {MatrixPrecision::kFp32, MatrixPrecision::kBf16}) {
    std::vector<NamedTensor> matrices = golden_matrices(golden);
    Muon muon(matrices, golden_config(golden, precision));
    for (const Json& step : golden.at("gradients")) {
      std::vector<torch::Tensor> gradients;
      for (auto& [name, tensor] : matrices) {
        tensor.mutable_grad() = golden_tensor(step.at(name));
        gradients.push_back(tensor.grad());
      }
      muon.step(golden.at("learning_rate").get<double>(), gradient_norm(gradients, 0));
    }
    for (const auto& [name, tensor] : matrices) {
      INFO(name << " in " << enum_name(precision));
      // The iteration in bfloat16 is good to about 2 %; three steps of 0.05.
      CHECK_CLOSE(tensor, golden_tensor(golden.at("torch").at(name)), 5e-3);
      const double tolerance = precision == MatrixPrecision::kFp32 ? 1e-5 : 5e-3;
      CHECK_CLOSE(tensor, golden_tensor(golden.at("exact").at(name)), tolerance);
    }
  }
}

TEST_CASE("newton_schulz gives nearly orthogonal matrices; zeros stay zeros", "[optim]") {
  torch::manual_seed(1);
  for (const auto& shape : {std::vector<int64_t>{2, 8, 32}, {2, 32, 8}}) {
    const torch::Tensor x = torch::randn(shape) * 1000;
    const torch::Tensor s = torch::linalg_svdvals(newton_schulz(x, torch::kFloat32));
    CHECK(s.min().item<double>() > 0.6);
    CHECK(s.max().item<double>() < 1.3);
  }
  CHECK(newton_schulz(torch::zeros({1, 3, 4}), torch::kFloat32).abs().max().item<double>() == 0);
}

TEST_CASE("a poisoned gradient changes neither matrices nor momentum; clipping divides",
          "[optim]") {
  const Json golden = read_golden("muon");
  std::vector<NamedTensor> matrices = golden_matrices(golden);
  Muon muon(matrices, golden_config(golden));
  std::vector<torch::Tensor> gradients, before;
  for (auto& [name, tensor] : matrices) {
    tensor.mutable_grad() = torch::full_like(tensor, std::numeric_limits<float>::quiet_NaN());
    gradients.push_back(tensor.grad());
    before.push_back(tensor.detach().clone());
  }
  muon.step(0.1, gradient_norm(gradients, 1.0));
  for (size_t i = 0; i < matrices.size(); ++i) CHECK(torch::equal(matrices[i].tensor, before[i]));
  for (const auto& [name, tensor] : muon.state()) CHECK(tensor.abs().max().item<double>() == 0);

  // Norm 2 clipped to 1: momentum takes (1 - 0.95) of half the gradient.
  for (auto& gradient : gradients) gradient.zero_();
  gradients[0].flatten()[0].fill_(2);
  muon.step(0.1, gradient_norm(gradients, 1.0));
  double largest = 0;
  for (const auto& [name, tensor] : muon.state()) {
    largest = std::max(largest, tensor.abs().max().item<double>());
  }
  CHECK(largest == Approx(0.05));
}

TEST_CASE("muon takes the matrices inside the blocks, AdamW the rest, each at its own rate",
          "[optim]") {
  ModelConfig model_config = testing::tiny_config(Preset::kClassic);
  GPT model = testing::tiny_model(model_config);
  OptimizerConfig config;
  config.name = OptimizerName::kMuon;
  config.learning_rate = 1e-3;
  config.matrix_learning_rate = 0.02;
  config.weight_decay = 0;
  const auto parameters = unique_parameters(*model);
  Optimizer optimizer(parameters, config);
  std::set<std::string> names;
  for (const auto& [name, tensor] : optimizer.state()) names.insert(name);
  CHECK(names.count("momentum.blocks.0.attn.heads.1.query.weight") == 1);
  CHECK(names.count("momentum.blocks.1.ffn.down.weight") == 1);
  CHECK(names.count("exp_avg.blocks.1.ffn.down.weight") == 0);
  CHECK(names.count("exp_avg.blocks.1.ffn.down.bias") == 1);
  CHECK(names.count("exp_avg.token_embedding.weight") == 1);
  CHECK(names.count("momentum.token_embedding.weight") == 0);

  const auto ids = testing::tiny_ids(2, 9);
  training_loss(model, ids.narrow(1, 0, 8), ids.narrow(1, 1, 8)).backward();
  std::vector<torch::Tensor> before;
  for (const auto& [name, tensor] : parameters) before.push_back(tensor.detach().clone());
  optimizer.step(/*factor=*/0.5, gradient_norm(optimizer.gradients(), 0));
  for (size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    const torch::Tensor change = parameters[i].tensor.detach() - before[i];
    if (is_muon_matrix(parameters[i])) {  // singular values of about rate * sqrt(max(1, r / c))
      const double rows = static_cast<double>(change.size(0));
      const double scale = std::sqrt(std::max(1.0, rows / static_cast<double>(change.size(1))));
      const double largest = torch::linalg_svdvals(change)[0].item<double>();
      CHECK(largest > 0.5 * 0.02 * scale * 0.6);
      CHECK(largest < 0.5 * 0.02 * scale * 1.3);
    } else {  // AdamW's first step: the rate, where the gradient is not tiny
      CHECK(change.abs().max().item<double>() == Approx(0.5 * 1e-3).epsilon(0.01));
    }
  }
}

}  // namespace
}  // namespace tril
