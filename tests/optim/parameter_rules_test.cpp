#include "tril/optim/parameter_rules.h"

#include <algorithm>
#include <map>
#include <string>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/optim/optimizer.h"

using namespace tril;
using namespace tril::testing;

TEST_CASE("patterns over names know stars and question marks", "[optim]") {
  CHECK(split_patterns("").empty());
  CHECK(split_patterns(" a.* ,, b ") == std::vector<std::string>{"a.*", "b"});
  CHECK(matches_pattern("blocks.0.ffn.up.weight", "blocks.0.*"));
  CHECK(matches_pattern("blocks.0.ffn.up.weight", "*.up.*"));
  CHECK(matches_pattern("blocks.0.ffn.up.weight", "*"));
  CHECK(matches_pattern("blocks.0.ffn.up.weight", "blocks.?.ffn.up.weight"));
  CHECK_FALSE(matches_pattern("blocks.10.ffn.up.weight", "blocks.?.ffn.up.weight"));
  CHECK_FALSE(matches_pattern("blocks.10.ln1.weight", "blocks.1.*"));
  CHECK_FALSE(matches_pattern("final_norm.weight", "final_norm"));
  CHECK(matches_pattern("aaab", "*a*b"));
  CHECK_FALSE(matches_pattern("aaab", "*a*c"));
  CHECK(matches_pattern("", "**"));
  CHECK_FALSE(matches_pattern("", "?"));
}

TEST_CASE("frozen parameters are left out and ask for no gradient", "[optim]") {
  GPT model = tiny_model(tiny_config());
  const auto all = unique_parameters(*model);
  const auto left = without_frozen(all, "token_embedding.*, blocks.0.*");
  for (const auto& [name, tensor] : all) {
    const bool frozen = name.starts_with("token_embedding.") || name.starts_with("blocks.0.");
    CAPTURE(name);
    CHECK(tensor.requires_grad() == !frozen);
    CHECK(std::any_of(left.begin(), left.end(), [&](const NamedTensor& p) {
            return p.name == name;
          }) == !frozen);
  }
  CHECK(without_frozen(all, "").size() == all.size());
  CHECK_THROWS_AS(without_frozen(all, "blocks.7.*"), ConfigError);
  CHECK_THROWS_AS(without_frozen(all, "*"), ConfigError);
}

TEST_CASE("learning rates fall from the last block to the embeddings", "[optim]") {
  GPT model = tiny_model(tiny_config());  // two blocks
  const LayerRates rates(unique_parameters(*model), 0.5);
  CHECK(rates.factor("final_norm.weight") == 1.0);
  CHECK(rates.factor("lm_head.weight") == 1.0);
  CHECK(rates.factor("blocks.1.attn.proj.weight") == 1.0);
  CHECK(rates.factor("blocks.0.attn.proj.weight") == 0.5);
  CHECK(rates.factor("token_embedding.weight") == 0.25);
  CHECK(rates.factor("position_embedding.weight") == 0.25);
}

TEST_CASE("a step moves each block by its own learning rate, and frozen ones not at all",
          "[optim]") {
  const torch::NoGradGuard no_grad;
  for (const OptimizerName name : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    const auto moved = [&](double layer_decay) {
      GPT model = tiny_model(tiny_config());
      const auto parameters = unique_parameters(*model);
      std::map<std::string, torch::Tensor> before;
      for (const auto& [key, tensor] : parameters) before[key] = tensor.clone();
      Optimizer optimizer(
          parameters,
          {.name = name, .weight_decay = 0, .frozen = "final_norm.*", .layer_decay = layer_decay});
      for (const auto& [key, tensor] : parameters) {
        if (tensor.requires_grad()) tensor.mutable_grad() = torch::cos(tensor * 100);
      }
      optimizer.step(1.0, gradient_norm(optimizer.gradients(), 0));
      std::map<std::string, double> distance;
      for (const auto& [key, tensor] : parameters) {
        distance[key] = (tensor - before[key]).norm().item<double>();
      }
      return distance;
    };
    const auto plain = moved(1);
    const auto decayed = moved(0.5);
    CAPTURE(enum_name(name));
    CHECK(plain.at("final_norm.weight") == 0);
    CHECK(plain.at("blocks.0.ffn.up.weight") > 0);
    const auto ratio = [&](const std::string& key) { return decayed.at(key) / plain.at(key); };
    CHECK(ratio("blocks.1.ffn.up.weight") == Approx(1.0));
    CHECK(ratio("blocks.0.ffn.up.weight") == Approx(0.5).epsilon(1e-3));
    CHECK(ratio("blocks.0.ln1.weight") == Approx(0.5).epsilon(1e-3));
    CHECK(ratio("token_embedding.weight") == Approx(0.25).epsilon(1e-3));
  }
}
