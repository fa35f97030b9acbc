// The whole model: names, sizes, initial loss, tying, padding, cache.

#include <torch/torch.h>

#include <cmath>

#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/loss.h"
#include "tril/optim/parameters.h"

namespace tril {
namespace {

using testing::tiny_config;
using testing::tiny_ids;
using testing::tiny_model;

TEST_CASE("parameter counts of the built model are those of the config", "[model]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    for (const Activation activation : {Activation::kRelu, Activation::kSwiglu}) {
      for (const bool tied : {true, false}) {
        ModelConfig config = tiny_config(preset);
        config.activation = activation;
        config.tie_embeddings = tied;
        config.vocab_multiple = 10;
        int64_t count = 0;
        for (const auto& [name, tensor] : unique_parameters(*GPT(config))) count += tensor.numel();
        CHECK(count == parameter_count(config));
      }
    }
  }
}

TEST_CASE("a fresh model's loss is ln V within a few per cent", "[model]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    ModelConfig config = tiny_config(preset);
    config.vocab_size = 65;
    config.n_embed = 64;
    GPT model(config);
    initialize(model, 1);
    const auto ids = tiny_ids(4, 9, 65);
    const auto loss = training_loss(model, ids.narrow(1, 0, 8), ids.narrow(1, 1, 8));
    CHECK(loss.item<double>() == Approx(std::log(65.0)).epsilon(0.03));
  }
}

TEST_CASE("initial weights: deviations, zeros and ones as the rule says", "[model]") {
  ModelConfig config = tiny_config(Preset::kGpt2);
  config.n_embed = 128;
  config.n_blocks = 8;
  GPT model(config);
  initialize(model, 1);
  for (const auto& [name, tensor] : unique_parameters(*model)) {
    INFO(name);
    if (name.ends_with("bias")) {
      CHECK(tensor.eq(0).all().item<bool>());
    } else if (tensor.dim() == 1) {
      CHECK(tensor.eq(1).all().item<bool>());
    } else {
      const bool to_residual = name.ends_with("proj.weight") || name.ends_with("down.weight");
      const double expected = to_residual ? 0.02 / std::sqrt(16.0) : 0.02;
      CHECK(tensor.std().item<double>() == Approx(expected).epsilon(0.1));
      CHECK(std::abs(tensor.mean().item<double>()) < expected / 10);
    }
  }
}

TEST_CASE("initial weights depend on the seed and the name alone", "[model]") {
  const auto weights = [](ModelConfig config, uint64_t seed) {
    GPT model(config);
    initialize(model, seed);
    return model->blocks[0]->as<BlockImpl>()->ffn->up->weight.detach().clone();
  };
  ModelConfig deeper = tiny_config();
  deeper.n_blocks = 3;
  CHECK(torch::equal(weights(tiny_config(), 1), weights(deeper, 1)));
  CHECK_FALSE(torch::equal(weights(tiny_config(), 1), weights(tiny_config(), 2)));
}

TEST_CASE("tied embeddings are one tensor: counted, updated and saved once", "[model]") {
  ModelConfig config = tiny_config(Preset::kGpt2);
  GPT model(config);
  model->to(torch::kCPU);
  CHECK(model->head_weight().const_data_ptr() == model->token_embedding->weight.const_data_ptr());
  for (const auto& [name, tensor] : unique_parameters(*model)) CHECK(name != "lm_head.weight");
  config.tie_embeddings = false;
  GPT untied(config);
  CHECK(untied->head_weight().const_data_ptr() != untied->token_embedding->weight.const_data_ptr());
}

TEST_CASE("a tensor registered twice is listed once", "[optim]") {
  struct Twice : torch::nn::Module {
    Twice() {
      auto weight = register_parameter("a", torch::ones({2}));
      register_parameter("b", weight);
    }
  };
  const auto parameters = unique_parameters(Twice());
  REQUIRE(parameters.size() == 1);
  CHECK(parameters[0].name == "a");
}

TEST_CASE("padded ids take no probability and give no gradient", "[model]") {
  ModelConfig config = tiny_config();
  config.vocab_size = 30;
  config.vocab_multiple = 32;
  GPT model = tiny_model(config);
  const auto ids = tiny_ids(2, 9, 30);
  const auto inputs = ids.narrow(1, 0, 8), targets = ids.narrow(1, 1, 8);
  CHECK(model->forward(inputs).size(2) == 30);
  const auto loss = training_loss(model, inputs, targets);
  CHECK_CLOSE(loss, cross_entropy(model->forward(inputs), targets), testing::kFp32Tolerance);
  loss.backward();
  CHECK(model->token_embedding->weight.grad().narrow(0, 30, 2).abs().max().item<double>() == 0.0);
}

TEST_CASE("the cache gives the same states as reading everything at once", "[model]") {
  std::vector<ModelConfig> configs;
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    configs.push_back(tiny_config(preset));
  }
  configs.push_back(tiny_config(Preset::kModern));
  configs.back().n_shift_head = 1;
  for (const ModelConfig& config : configs) {
    INFO(enum_name(config.preset) << ", " << config.n_shift_head << " shifted");
    GPT model = tiny_model(config);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto ids = tiny_ids(2, 8);
    const auto whole = model->forward_hidden(ids);
    // A prompt, then one by one; and a prompt in two pieces.
    for (const auto& pieces :
         {std::vector<int64_t>{3, 1, 1, 1, 1, 1}, std::vector<int64_t>{2, 4, 2}}) {
      KvCache cache = model->make_cache(2, 8);
      int64_t first = 0;
      for (const int64_t n : pieces) {
        CHECK_CLOSE(model->forward_cached(ids.narrow(1, first, n), cache),
                    whole.narrow(1, first, n),
                    testing::kFp32Tolerance);
        first += n;
      }
      CHECK(cache.length == 8);
    }
  }
}

TEST_CASE("ids beyond the context are refused", "[model]") {
  GPT model(tiny_config());
  CHECK_THROWS_AS(model->forward(torch::zeros({1, 9}, torch::kInt64)), c10::Error);
  KvCache cache = model->make_cache(1, 4);
  CHECK_THROWS_AS(model->forward_cached(torch::zeros({1, 5}, torch::kInt64), cache), c10::Error);
}

TEST_CASE("one batch is learned by heart within 60 steps, by every preset", "[model][learning]") {
  // Seen to matter: a missing residual, norm or head leaves the loss above 1.
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    INFO(enum_name(preset));
    GPT model(tiny_config(preset));
    initialize(model, 1);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
    const auto ids = tiny_ids(4, 9);
    double loss = 0;
    for (int step = 0; step < 60; ++step) {
      optimizer.zero_grad();
      const auto value = training_loss(model, ids.narrow(1, 0, 8), ids.narrow(1, 1, 8));
      value.backward();
      optimizer.step();
      loss = value.item<double>();
    }
    CHECK(loss < 0.2);
  }
}

}  // namespace
}  // namespace tril
