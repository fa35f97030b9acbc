// Activation checkpointing changes memory and time, and nothing else.

#include "tril/model/checkpointed_block.h"

#include <torch/torch.h>

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "support/catch.h"
#include "support/tiny.h"
#include "tril/model/autocast.h"
#include "tril/model/loss.h"
#include "tril/optim/parameters.h"

namespace tril {
namespace {

TEST_CASE("activation checkpointing: loss and every gradient are equal bit for bit", "[model]") {
  const Preset preset = GENERATE(Preset::kClassic, Preset::kGpt2, Preset::kModern);
  const double dropout = GENERATE(0.0, 0.2);
  const auto precision =
      GENERATE(as<torch::ScalarType>{}, torch::kFloat32, torch::kBFloat16, torch::kFloat16);
  CAPTURE(enum_name(preset), dropout, precision);
  ModelConfig config = testing::tiny_config(preset);
  config.dropout = dropout;
  GPT model = testing::tiny_model(config);
  model->train();
  const auto ids = testing::tiny_ids(2, 9);
  std::vector<torch::Tensor> results[2];
  for (int checkpointing = 0; checkpointing < 2; ++checkpointing) {
    model->set_activation_checkpointing(checkpointing == 1);
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    torch::manual_seed(5);
    torch::Tensor loss;
    {
      const AutocastGuard autocast(torch::kCPU, precision);
      loss = training_loss(model, ids.narrow(1, 0, 8), ids.narrow(1, 1, 8));
    }
    loss.backward();
    results[checkpointing].push_back(loss.detach());
    results[checkpointing].push_back(torch::rand({4}));  // the generator stands where it did
    for (const auto& [name, tensor] : unique_parameters(*model)) {
      results[checkpointing].push_back(tensor.grad());
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    INFO("result " << i);
    CHECK(torch::equal(results[0][i], results[1][i]));
  }
}

TEST_CASE("all blocks but the last quarter are computed again", "[model]") {
  const int64_t n_blocks = GENERATE(1, 4, 5, 6);
  CAPTURE(n_blocks);
  ModelConfig config = testing::tiny_config(Preset::kModern);
  config.n_blocks = n_blocks;
  GPT model = testing::tiny_model(config);
  model->train();
  model->set_activation_checkpointing(true);
  int64_t n_again = 0;
  const torch::Tensor hidden = model->forward_hidden(testing::tiny_ids(2, 8));
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next{hidden.grad_fn().get()};
  while (!next.empty()) {
    auto* const node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (node->name().find("CheckpointedBlock") != std::string::npos) ++n_again;
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  CHECK(n_again == std::map<int64_t, int64_t>{{1, 0}, {4, 3}, {5, 3}, {6, 4}}.at(n_blocks));
}

TEST_CASE("a checkpointed block keeps its input only", "[model]") {
  const ModelConfig config = testing::tiny_config(Preset::kGpt2);
  Block block(config, make_attention_tables(config));
  const torch::Tensor x = torch::randn({2, 8, config.n_embed}).requires_grad_(true);
  torch::Tensor y = checkpointed_forward(block, x);
  const auto direction = torch::randn_like(y);
  const auto node = y.grad_fn();
  REQUIRE(node != nullptr);
  // Its inputs are x and the parameters: nothing of the inside is part of the graph.
  CHECK(node->num_inputs() == 1);
  for (uint32_t i = 0; i < node->num_outputs(); ++i) {
    const auto& next = node->next_edge(i).function;
    if (next) CHECK(next->name().find("AccumulateGrad") != std::string::npos);
  }
  const auto found = torch::autograd::grad({y}, {x}, {direction})[0];
  const auto expected = torch::autograd::grad({block->forward(x)}, {x}, {direction})[0];
  CHECK(torch::equal(found, expected));
}

}  // namespace
}  // namespace tril
