// Against PyTorch: logits, loss, every gradient and ten AdamW steps of a tiny model, per preset.

#include <torch/torch.h>

#include "support/catch.h"
#include "support/golden.h"
#include "support/tensor_matchers.h"
#include "tril/config/run_config.h"
#include "tril/model/gpt.h"
#include "tril/model/head.h"
#include "tril/model/loss.h"
#include "tril/optim/adamw.h"
#include "tril/optim/gradient_norm.h"

namespace tril {
namespace {

using testing::golden_ids;
using testing::golden_tensor;
using testing::read_golden;

constexpr const char* kGoldens[] = {"model_classic",
                                    "model_gpt2",
                                    "model_modern",
                                    "model_swiglu",
                                    "model_shifted",
                                    "model_no_bias"};

GPT golden_model(const Json& golden, AttentionPath attention) {
  Json run;
  run["model"] = golden.at("config");
  ModelConfig config = run_config_from_json(run, "golden").model;
  config.attention = attention;
  GPT model(config);
  const torch::NoGradGuard no_grad;
  size_t n_set = 0;
  for (const auto& [name, tensor] : unique_parameters(*model)) {
    INFO(name);
    REQUIRE(golden.at("parameters").contains(name));
    tensor.copy_(golden_tensor(golden.at("parameters").at(name)));
    ++n_set;
  }
  REQUIRE(n_set == golden.at("parameters").size());  // no weight of the oracle is left out
  return model;
}

TEST_CASE("logits, loss and every gradient equal PyTorch's", "[model][golden]") {
  for (const char* name : kGoldens) {
    for (const auto attention : {AttentionPath::kReference, AttentionPath::kFused}) {
      INFO(name << ", attention " << enum_name(attention));
      const Json golden = read_golden(name);
      GPT model = golden_model(golden, attention);
      const auto inputs = golden_ids(golden.at("inputs"));
      const auto targets = golden_ids(golden.at("targets"));

      CHECK_CLOSE(
          model->forward(inputs), golden_tensor(golden.at("logits")), testing::kFp32Tolerance);
      const torch::Tensor loss = training_loss(model, inputs, targets);
      CHECK(loss.item<double>() == Approx(golden.at("loss").get<double>()).margin(1e-5));
      loss.backward();
      for (const auto& [parameter, tensor] : unique_parameters(*model)) {
        INFO(parameter);
        CHECK_CLOSE(tensor.grad(),
                    golden_tensor(golden.at("gradients").at(parameter)),
                    testing::kFp32Tolerance);
      }
    }
  }
}

TEST_CASE("ten AdamW steps follow PyTorch's loss curve", "[optim][golden]") {
  for (const char* name : kGoldens) {
    INFO(name);
    const Json golden = read_golden(name);
    const Json& adamw = golden.at("adamw");
    GPT model = golden_model(golden, AttentionPath::kFused);
    OptimizerConfig config;
    config.beta1 = adamw.at("beta1");
    config.beta2 = adamw.at("beta2");
    config.epsilon = adamw.at("epsilon");
    config.weight_decay = adamw.at("weight_decay");
    AdamW optimizer(unique_parameters(*model), config);
    const auto inputs = golden_ids(golden.at("inputs"));
    const auto targets = golden_ids(golden.at("targets"));
    const auto losses = adamw.at("losses").get<std::vector<double>>();
    const auto norms = adamw.at("grad_norms").get<std::vector<double>>();
    REQUIRE(losses.size() == 10);
    for (size_t step = 0; step < losses.size(); ++step) {
      INFO("step " << step + 1);
      optimizer.zero_grad();
      const torch::Tensor loss = training_loss(model, inputs, targets);
      // Both curves are float32; ten steps at a large rate multiply round-off by a few.
      CHECK(loss.item<double>() == Approx(losses[step]).margin(2e-5));
      loss.backward();
      const auto gradient = gradient_norm(optimizer.gradients(), adamw.at("grad_clip"));
      CHECK(gradient.norm.item<double>() == Approx(norms[step]).epsilon(1e-4));
      optimizer.step(adamw.at("learning_rate"), gradient);
    }
    for (const auto& [parameter, values] : adamw.at("final").items()) {
      for (const auto& [own_name, tensor] : unique_parameters(*model)) {
        if (own_name == parameter) CHECK_CLOSE(tensor, golden_tensor(values), 1e-4);
      }
    }
  }
}

TEST_CASE("one head by hand: scores, weights and output", "[model][golden]") {
  const Json golden = read_golden("attention");
  ModelConfig config = model_preset(Preset::kClassic);
  config.context_length = 3;
  config.n_embed = 4;
  config.n_head = 2;
  Head head(config, make_attention_tables(config));
  const torch::NoGradGuard no_grad;
  head->query->weight.copy_(golden_tensor(golden.at("query")));
  head->key->weight.copy_(golden_tensor(golden.at("key")));
  head->value->weight.copy_(golden_tensor(golden.at("value")));
  const HeadAttention result = head->attention(golden_tensor(golden.at("x")));
  CHECK_CLOSE(result.weights, golden_tensor(golden.at("attention")), 1e-6);
  CHECK_CLOSE(result.output, golden_tensor(golden.at("output")), 1e-6);
}

}  // namespace
}  // namespace tril
