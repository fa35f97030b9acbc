// Head, MultiHeadAttention and the fused kernels: the plain form is the oracle of the fast ones.

#include <torch/torch.h>

#include <cmath>

#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/autocast.h"
#include "tril/model/loss.h"
#include "tril/model/rotary.h"

namespace tril {
namespace {

using testing::tiny_config;
using testing::tiny_ids;
using testing::tiny_model;

ModelConfig attention_config(AttentionPath path, Preset preset) {
  ModelConfig config = tiny_config(preset);
  config.n_embed = 24;
  config.n_head = 3;
  config.context_length = 17;
  config.attention = path;
  return config;
}

/// Loss and gradients of one batch, by parameter.
struct Result {
  torch::Tensor logits;
  std::vector<torch::Tensor> gradients;
};

Result run(ModelConfig config,
           AttentionPath path,
           int64_t n_positions,
           torch::ScalarType precision) {
  config.attention = path;
  GPT model = tiny_model(config);
  const auto ids = tiny_ids(2, n_positions + 1, config.vocab_size);
  const AutocastGuard autocast(torch::kCPU, precision);
  Result result;
  result.logits = model->forward(ids.narrow(1, 0, n_positions)).to(torch::kFloat32);
  cross_entropy(result.logits, ids.narrow(1, 1, n_positions)).backward();
  for (const auto& parameter : model->parameters()) {
    result.gradients.push_back(parameter.grad().defined() ? parameter.grad()
                                                          : torch::zeros_like(parameter));
  }
  return result;
}

TEST_CASE("fused attention equals the heads one by one: outputs and every gradient, fp32",
          "[model][attention]") {
  std::vector<ModelConfig> configs;
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    configs.push_back(attention_config(AttentionPath::kFused, preset));
  }
  configs.push_back(configs.back());
  configs.back().n_shift_head = 2;
  for (const ModelConfig& config : configs) {
    for (int64_t t = 1; t <= config.context_length; ++t) {
      INFO("preset " << enum_name(config.preset) << ", " << config.n_shift_head << " shifted, T "
                     << t);
      const Result plain = run(config, AttentionPath::kReference, t, torch::kFloat32);
      const Result fused = run(config, AttentionPath::kFused, t, torch::kFloat32);
      CHECK_CLOSE(fused.logits, plain.logits, testing::kFp32Tolerance);
      REQUIRE(fused.gradients.size() == plain.gradients.size());
      for (size_t i = 0; i < plain.gradients.size(); ++i) {
        INFO("parameter " << i);
        CHECK_CLOSE(fused.gradients[i], plain.gradients[i], testing::kFp32Tolerance);
      }
    }
  }
}

TEST_CASE("the path of other devices equals the heads one by one, shifted heads too",
          "[model][attention]") {
  for (const int64_t n_shift_head : {0, 1, 3}) {
    CAPTURE(n_shift_head);
    ModelConfig config = attention_config(AttentionPath::kFused, Preset::kModern);
    config.n_shift_head = n_shift_head;
    torch::manual_seed(3);
    MultiHeadAttention attention(config, make_attention_tables(config));
    attention->to(torch::kFloat64);  // packed_attention does not take it
    const torch::Tensor x = torch::randn({2, 9, config.n_embed}, torch::kFloat64);
    CHECK_CLOSE(attention->fused(x), attention->reference(x), 1e-5);
  }
}

TEST_CASE("fused attention equals the heads one by one in bf16", "[model][attention]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    const ModelConfig config = attention_config(AttentionPath::kFused, preset);
    for (const int64_t t : {int64_t{1}, int64_t{2}, int64_t{9}, config.context_length}) {
      INFO("preset " << enum_name(preset) << ", T " << t);
      // One attention layer: through a whole model bf16 round-off of other parts would be compared.
      torch::manual_seed(3);
      const auto tables = make_attention_tables(config);
      MultiHeadAttention attention(config, tables);
      const torch::Tensor x = torch::randn({2, t, config.n_embed});
      torch::Tensor results[2];
      std::vector<torch::Tensor> gradients[2];
      for (int path = 0; path < 2; ++path) {
        const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
        for (auto& parameter : attention->parameters()) parameter.mutable_grad().reset();
        results[path] = path == 0 ? attention->reference(x) : attention->fused(x);
        results[path].to(torch::kFloat32).square().mean().backward();
        for (const auto& head : attention->heads->children()) {
          for (const auto& parameter : head->parameters()) {
            gradients[path].push_back(parameter.grad());
          }
        }
      }
      CHECK_CLOSE(results[1], results[0], testing::kBf16Tolerance);
      for (size_t i = 0; i < gradients[0].size(); ++i) {
        CHECK_CLOSE(gradients[1][i], gradients[0][i], testing::kBf16Tolerance);
      }
    }
  }
}

TEST_CASE("a shifted head looks for a token and reads what came after it", "[model][attention]") {
  ModelConfig config = model_preset(Preset::kGpt2);
  config.qkv_bias = false;
  config.context_length = config.n_embed = 4;
  config.n_head = 1;
  for (const bool shifted : {false, true}) {
    INFO("shifted " << shifted);
    Head head(config, make_attention_tables(config), HeadPlace{nullptr, shifted});
    const torch::NoGradGuard no_grad;
    for (auto& weight : head->parameters()) weight.copy_(torch::eye(4) * 9);
    // Tokens a b c a, one-hot: who looks for "a" finds itself and the first position, or, shifted,
    // the b that came next (and the first position, which its own key finds too).
    const auto x = torch::eye(4).index_select(0, torch::tensor({0, 1, 2, 0})).unsqueeze(0);
    const torch::Tensor last = head->attention(x).weights[0][3];
    const auto expected =
        shifted ? torch::tensor({0.5F, 0.5F, 0.0F, 0.0F}) : torch::tensor({0.5F, 0.0F, 0.0F, 0.5F});
    CHECK_CLOSE(last, expected, testing::kFp32Tolerance);
  }
}

TEST_CASE("a head's weights: rows sum to one, the future is exactly zero, the first row is [1]",
          "[model][attention]") {
  for (const Preset preset : {Preset::kClassic, Preset::kModern}) {
    ModelConfig config = tiny_config(preset);
    config.dropout = 0.2;
    Head head(config, make_attention_tables(config));
    head->eval();
    torch::manual_seed(1);
    for (const int64_t t : {int64_t{1}, int64_t{4}, config.context_length}) {
      const auto [weights, output] = head->attention(torch::randn({2, t, config.n_embed}) * 3);
      CHECK(weights.sizes() == at::IntArrayRef({2, t, t}));
      CHECK(output.sizes() == at::IntArrayRef({2, t, config.head_size()}));
      CHECK_CLOSE(weights.sum(-1), torch::ones({2, t}), 1e-5);
      CHECK(weights.triu(1).abs().max().item<double>() == 0.0);
      CHECK(weights.select(1, 0).select(1, 0).eq(1).all().item<bool>());
    }
  }
}

TEST_CASE("the scale is 1/sqrt(D): two positions worked out by hand", "[model][attention]") {
  ModelConfig config = model_preset(Preset::kClassic);
  config.context_length = 2;
  config.n_embed = 4;
  config.n_head = 1;  // D = 4, scale 1/2
  Head head(config, make_attention_tables(config));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : head->parameters()) parameter.copy_(torch::eye(4));
  // x0 = (2,0,0,0), x1 = (2,1,0,0): scores of row 1 are 4/2 = 2 and 5/2; softmax of a gap of 1/2.
  const auto x = torch::tensor({{{2.0, 0.0, 0.0, 0.0}, {2.0, 1.0, 0.0, 0.0}}}).to(torch::kFloat32);
  const auto weights = head->attention(x).weights;
  const double expected = 1.0 / (1.0 + std::exp(0.5));
  CHECK(weights[0][1][0].item<double>() == Approx(expected).epsilon(1e-6));
  CHECK(weights[0][1][1].item<double>() == Approx(1 - expected).epsilon(1e-6));
}

TEST_CASE("all heads share one mask, and it is not a parameter", "[model]") {
  GPT model(tiny_config(Preset::kClassic));
  const void* mask = nullptr;
  int64_t n_heads = 0;
  for (const auto& module : model->modules()) {
    if (const auto* head = module->as<HeadImpl>()) {
      if (mask == nullptr) mask = head->tril.const_data_ptr();
      CHECK(head->tril.const_data_ptr() == mask);
      CHECK(head->tril.scalar_type() == torch::kBool);
      ++n_heads;
    }
  }
  CHECK(n_heads == 4);
  for (const auto& item : model->named_parameters())
    CHECK(item.key().find("tril") == std::string::npos);
}

TEST_CASE("changing a later token leaves every earlier logit alone", "[model]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    for (const auto path : {AttentionPath::kFused, AttentionPath::kReference}) {
      INFO("preset " << enum_name(preset) << ", attention " << enum_name(path));
      ModelConfig config = tiny_config(preset);
      config.attention = path;
      GPT model = tiny_model(config);
      const torch::NoGradGuard no_grad;
      const auto ids = tiny_ids(1, 8);
      const auto before = model->forward(ids);
      for (int64_t t = 1; t < 8; ++t) {
        auto changed = ids.clone();
        changed[0][t] = (changed[0][t] + 1).remainder(32);
        const auto after = model->forward(changed);
        CHECK_CLOSE(after.narrow(1, 0, t), before.narrow(1, 0, t), 1e-6);
        CHECK((after.narrow(1, t, 1) - before.narrow(1, t, 1)).abs().max().item<double>() > 1e-3);
      }
    }
  }
}

TEST_CASE("rows of a batch do not see each other", "[model]") {
  GPT model = tiny_model(tiny_config());
  const torch::NoGradGuard no_grad;
  const auto ids = tiny_ids(2, 8);
  const auto both = model->forward(ids);
  for (int64_t row = 0; row < 2; ++row) {
    CHECK_CLOSE(both.narrow(0, row, 1), model->forward(ids.narrow(0, row, 1)), 1e-6);
  }
}

TEST_CASE("rotation keeps lengths and depends on distance only", "[model]") {
  const auto table = make_rotary_table(32, 8, 10000.0);
  torch::manual_seed(1);
  const auto q = torch::randn({1, 8}), k = torch::randn({1, 8});
  const auto at_position = [&](const torch::Tensor& x, int64_t p) {
    return apply_rotary(x, table, p);
  };
  CHECK_CLOSE(at_position(q, 0), q, 1e-6);
  CHECK_CLOSE(at_position(q, 9).norm(), q.norm(), 1e-5);
  const auto near = (at_position(q, 7) * at_position(k, 4)).sum();
  const auto far = (at_position(q, 27) * at_position(k, 24)).sum();
  CHECK_CLOSE(near, far, 1e-4);
  // Pair (d, d + D/2) at position 1 turns by base^(-2d/D): for d = 0 by one radian.
  auto unit = torch::zeros({1, 8});
  unit[0][0] = 1;
  CHECK(at_position(unit, 1)[0][0].item<double>() == Approx(std::cos(1.0)));
  CHECK(at_position(unit, 1)[0][4].item<double>() == Approx(std::sin(1.0)));
}

}  // namespace
}  // namespace tril
