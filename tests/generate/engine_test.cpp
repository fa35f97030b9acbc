#include "tril/generate/engine.h"

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/generate/generator.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

using Ids = std::vector<int64_t>;

/// Every variant of the model, one change at a time.
std::vector<ModelConfig> variants() {
  std::vector<ModelConfig> result;
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    result.push_back(tiny_config(preset));
  }
  const auto add = [&](Preset preset, const auto& change) {
    result.push_back(tiny_config(preset));
    change(result.back());
  };
  add(Preset::kModern, [](ModelConfig& c) { c.activation = Activation::kSwiglu; });
  add(Preset::kModern, [](ModelConfig& c) { c.qk_norm = false; });
  add(Preset::kModern, [](ModelConfig& c) { c.qkv_bias = true; });
  add(Preset::kModern, [](ModelConfig& c) { c.bias = true; });
  add(Preset::kGpt2, [](ModelConfig& c) { c.activation = Activation::kGelu; });
  add(Preset::kGpt2, [](ModelConfig& c) { c.vocab_multiple = 64; });
  add(Preset::kGpt2, [](ModelConfig& c) { c.norm = Norm::kRmsNorm; });
  add(Preset::kModern, [](ModelConfig& c) {
    c.n_head = 4;
    c.n_kv_head = 2;
  });
  add(Preset::kGpt2, [](ModelConfig& c) { c.n_kv_head = 1; });
  add(Preset::kModern, [](ModelConfig& c) { c.n_shift_head = 1; });
  add(Preset::kGpt2, [](ModelConfig& c) {
    c.n_head = 4;
    c.n_kv_head = 2;
    c.n_shift_head = 2;
  });
  return result;
}

torch::Tensor row(std::span<const float> logits) {
  return torch::tensor(at::ArrayRef<float>(logits.data(), logits.size()));
}

/// The model's own logits after each of the ids: (T, V).
torch::Tensor plain_logits(GPT& model, const Ids& ids) {
  const torch::NoGradGuard no_grad;
  return model->forward(torch::tensor(ids).unsqueeze(0))[0];
}

GenerateOptions sampled(int64_t n, uint64_t seed = 5) {
  GenerateOptions options;
  options.max_new_tokens = n;
  options.sampling.temperature = 1;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("the engine computes what the model computes, in every variant", "[generate]") {
  const Ids ids = {3, 17, 31, 0, 9, 9, 24, 5};
  for (const ModelConfig& config : variants()) {
    GPT model = tiny_model(config);
    for (auto& item : model->named_parameters()) {  // biases of a fresh model are 0
      const torch::NoGradGuard no_grad;
      if (item.key().ends_with("bias")) item.value().normal_();
    }
    CAPTURE(enum_name(config.preset),
            enum_name(config.activation),
            config.qk_norm,
            config.bias,
            config.qkv_bias,
            config.n_kv_head,
            config.n_shift_head,
            config.vocab_multiple,
            enum_name(config.norm));
    const torch::Tensor expected = plain_logits(model, ids);
    for (const int64_t threads : {1, 2}) {
      for (const size_t n_prompt : {size_t{0}, size_t{1}, size_t{5}, size_t{8}}) {
        CAPTURE(threads, n_prompt);
        Engine engine(model, {.threads = threads});
        if (n_prompt > 0) {
          auto logits = engine.read_prompt(0, std::span(ids).first(n_prompt));
          CHECK(first_difference(row(logits),
                                 expected[static_cast<int64_t>(n_prompt) - 1],
                                 kFp32Tolerance) == "");
        }
        for (size_t i = n_prompt; i < ids.size(); ++i) {
          engine.step(std::vector<EngineStep>{{0, ids[i]}});
          CHECK(first_difference(row(engine.logits(0)),
                                 expected[static_cast<int64_t>(i)],
                                 kFp32Tolerance) == "");
        }
        CHECK(engine.length(0) == 8);
      }
    }
  }
}

TEST_CASE("narrow weights are the rounded model, prompt and steps alike", "[generate]") {
  const Ids ids = {3, 17, 31, 0, 9, 9, 24, 5};
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    for (const Preset preset : {Preset::kGpt2, Preset::kModern}) {
      CAPTURE(enum_name(format), enum_name(preset));
      GPT model = tiny_model(tiny_config(preset));
      GPT rounded = tiny_model(tiny_config(preset));
      const torch::Tensor table = rounded->token_embedding->weight.detach().clone();
      round_weights(rounded, format);
      // The engine looks tokens up in the table as it was; only the head's use of it is rounded.
      const torch::Tensor expected = [&] {
        const torch::NoGradGuard no_grad;
        const torch::Tensor head = rounded->token_embedding->weight.detach().clone();
        rounded->token_embedding->weight.copy_(table);
        const torch::Tensor hidden = rounded->forward_hidden(torch::tensor(ids).unsqueeze(0))[0];
        return torch::linear(hidden, head);
      }();
      Engine engine(model, {.format = format});
      engine.read_prompt(0, std::span(ids).first(1));
      for (size_t i = 1; i < ids.size(); ++i) {
        engine.step(std::vector<EngineStep>{{0, ids[i]}});
        // Keys and values are kept in bf16.
        CHECK(first_difference(row(engine.logits(0)), expected[static_cast<int64_t>(i)], 3e-2) ==
              "");
      }
      // The prompt in one pass multiplies in bf16 where the processor has units for it.
      CHECK(first_difference(row(engine.read_prompt(0, ids)), expected[7], 6e-2) == "");
      // And the rounding itself shows, or the test would prove nothing.
      CHECK(first_difference(plain_logits(model, ids), expected, 1e-4) != "");
    }
  }
}

TEST_CASE("int8 rows keep their largest value, and rows of zeros stay zeros", "[generate]") {
  const torch::Tensor w = torch::tensor({{0.0F, -254.0F, 1.0F}, {0.0F, 0.0F, 0.0F}});
  const PackedMatrix packed = pack_matrix(w, {}, WeightFormat::kInt8);
  CHECK(packed.scales.equal(torch::tensor({2.0F, 1.0F})));
  CHECK(packed.values.equal(
      torch::tensor({{0, -127, 0}, {0, 0, 0}}, torch::kInt8)));  // 1 / 2 to even: 0
  CHECK(packed.unpacked().equal(torch::tensor({{0.0F, -254.0F, 0.0F}, {0.0F, 0.0F, 0.0F}})));
}

TEST_CASE("texts side by side do not see each other", "[generate]") {
  ModelConfig config = tiny_config();
  config.n_shift_head = GENERATE(0, 1);
  CAPTURE(config.n_shift_head);
  GPT model = tiny_model(config);
  const std::vector<Ids> texts = {{1, 2, 3}, {30}, {7, 7, 7, 7, 7, 7}, {0, 31}, {5, 6, 5}};
  Engine engine(model, {.sequences = 5});
  for (int64_t i = 0; i < 5; ++i) engine.read_prompt(i, texts[static_cast<size_t>(i)]);
  engine.step(std::vector<EngineStep>{{4, 9}, {1, 8}, {0, 7}, {3, 6}, {2, 5}});
  const Ids next = {7, 8, 5, 6, 9};
  const std::vector<size_t> order = {4, 1, 0, 3, 2};
  for (size_t i = 0; i < order.size(); ++i) {
    Ids ids = texts[order[i]];
    ids.push_back(next[order[i]]);
    CHECK(first_difference(row(engine.logits(i)), plain_logits(model, ids)[-1], kFp32Tolerance) ==
          "");
  }
  // A text begun anew, and one copied.
  engine.read_prompt(2, Ids{4});
  engine.copy_text(0, 3);
  engine.step(std::vector<EngineStep>{{2, 1}, {3, 1}});
  CHECK(first_difference(row(engine.logits(0)), plain_logits(model, {4, 1})[-1], kFp32Tolerance) ==
        "");
  CHECK(first_difference(
            row(engine.logits(1)), plain_logits(model, {1, 2, 3, 7, 1})[-1], kFp32Tolerance) == "");
}

TEST_CASE("a step beyond the capacity or outside the vocabulary is refused", "[generate]") {
  GPT model = tiny_model(tiny_config());
  Engine engine(model, {.capacity = 3});
  CHECK(engine.capacity() == 3);
  CHECK_THROWS_AS(engine.read_prompt(0, Ids{1, 2, 3, 4}), c10::Error);
  CHECK_THROWS_AS(engine.read_prompt(1, Ids{1}), c10::Error);
  engine.read_prompt(0, Ids{1, 2, 3});
  CHECK_THROWS_AS(engine.step(std::vector<EngineStep>{{0, 1}}), c10::Error);
  engine.read_prompt(0, Ids{1});
  CHECK_THROWS_AS(engine.step(std::vector<EngineStep>{{0, 32}}), c10::Error);
  CHECK_THROWS_AS(engine.step(std::vector<EngineStep>{{0, -1}}), c10::Error);
}

TEST_CASE("small models stay on one thread", "[generate]") {
  GPT model = tiny_model(tiny_config());
  CHECK(Engine(model, {.threads = 8}).threads() == 1);
  ModelConfig config = tiny_config();
  config.n_embed = 256;
  GPT larger(config);  // 2 blocks of 12 * 256 * 256 * 4 bytes
  const Engine engine(larger, {.threads = 8});
  CHECK(engine.bytes_per_step() == (2 * 12 * 256 * 256 + 32 * 256) * 4);
  CHECK(engine.threads() == 8);
}

TEST_CASE("many prompts at once give the texts that each gives alone", "[generate]") {
  GPT model = tiny_model(tiny_config());
  const CharTokenizer tokenizer = tokenizer_of(32);
  const std::vector<Prompt> prompts = {
      {{1, 2, 3}, 0}, {{30}, 0}, {{1, 2, 3}, 1}, {{7, 7, 7, 7, 7, 7, 7}, 0}, {{0, 31}, 4}};
  const GenerateOptions options = sampled(20);  // past the context of 8
  for (const int64_t at_once : {1, 2, 5, 100}) {
    CAPTURE(at_once);
    const auto all = generate_all(model, tokenizer, prompts, options, at_once);
    REQUIRE(all.size() == prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      GenerateOptions alone = options;
      alone.sample_index = prompts[i].sample_index;
      CHECK(all[i].ids == generate(model, tokenizer, prompts[i].ids, alone).ids);
    }
  }
  CHECK(generate_all(model, tokenizer, prompts, options, 2)[0].ids !=
        generate_all(model, tokenizer, prompts, options, 2)[2].ids);  // another sample
}

TEST_CASE("log-probabilities are the model's own, whatever the sampling does", "[generate]") {
  GPT model = tiny_model(tiny_config());
  const CharTokenizer tokenizer = tokenizer_of(30);  // two ids mean nothing
  GenerateOptions options = sampled(6);
  options.sampling.temperature = 3;
  options.sampling.top_k = 7;
  options.top_log_probabilities = 3;
  const Generation result = generate(model, tokenizer, {1, 2}, options);
  REQUIRE(result.log_probabilities.size() == 6);
  Ids ids = {1, 2};
  for (size_t i = 0; i < 6; ++i) {
    const torch::Tensor expected =
        torch::log_softmax(plain_logits(model, ids)[-1].narrow(0, 0, 30), 0);
    const TokenLogProbabilities& found = result.log_probabilities[i];
    CHECK(found.chosen == Approx(expected[result.ids[i]].item<double>()).margin(1e-4));
    REQUIRE(found.top.size() == 3);
    const auto [values, order] = expected.topk(3);
    for (int64_t k = 0; k < 3; ++k) {
      CHECK(found.top[static_cast<size_t>(k)].first == order[k].item<int64_t>());
      CHECK(found.top[static_cast<size_t>(k)].second ==
            Approx(values[k].item<double>()).margin(1e-4));
    }
    ids.push_back(result.ids[i]);
    if (ids.size() > 8) ids.erase(ids.begin());
  }
  CHECK(generate(model, tokenizer, {1, 2}, sampled(6)).log_probabilities.empty());
}

TEST_CASE("a bias of a logit forbids a token or forces it", "[generate]") {
  GPT model = tiny_model(tiny_config());
  const CharTokenizer tokenizer = tokenizer_of(32);
  GenerateOptions options = sampled(30);
  const Ids free = generate(model, tokenizer, {1}, options).ids;
  options.sampling.logit_bias = {{free[0], -1e9}};
  const Ids without = generate(model, tokenizer, {1}, options).ids;
  CHECK(std::find(without.begin(), without.end(), free[0]) == without.end());
  options.sampling.logit_bias = {{12, 1e9}};
  CHECK(generate(model, tokenizer, {1}, options).ids == Ids(30, 12));
}
