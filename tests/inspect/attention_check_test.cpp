// Every line of the check-list passes for a real model of every kind, and fails for one that is
// broken in just the way the line is about.

#include "tril/inspect/attention_check.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tiny.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// By name; a name that is missing or there twice stops the test.
std::map<std::string, CheckLine> check(const AttentionSubject& subject, const torch::Tensor& ids) {
  std::map<std::string, CheckLine> lines;
  for (const CheckLine& line : check_attention(subject, ids)) {
    REQUIRE(lines.emplace(line.name, line).second);
  }
  REQUIRE(lines.size() == 12);
  return lines;
}

std::vector<std::string> failed(const AttentionSubject& subject) {
  std::vector<std::string> names;
  for (const auto& [name, line] : check(subject, tiny_ids(2, 8))) {
    if (line.result == CheckResult::kFail) names.push_back(name);
  }
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

using Names = std::vector<std::string>;

/// One head written out, with something to get wrong.
struct HeadRecipe {
  double scale_factor = 1;     ///< on 1/sqrt(D)
  int64_t diagonal = 0;        ///< position i sees j <= i + diagonal
  bool softmax_first = false;  ///< mask after the softmax: rows no longer sum to 1
  bool raw_query = false, raw_key = false, raw_value = false;  ///< read x, not ln1(x)
};

HeadAttention attend(const AttentionSubject& s,
                     int64_t block,
                     int64_t head,
                     const torch::Tensor& x,
                     const HeadRecipe& recipe) {
  const HeadProjections p = s.projections(block, head);
  const torch::Tensor input = s.normalized(block, x);
  const auto project = [&](bool raw, const torch::Tensor& w) {
    return torch::linear(raw ? x : input, w);
  };
  const torch::Tensor q = project(recipe.raw_query, p.query);
  const torch::Tensor k = project(recipe.raw_key, p.key);
  const torch::Tensor v = project(recipe.raw_value, p.value);
  torch::Tensor scores = q.matmul(k.transpose(-2, -1)) *
                         (recipe.scale_factor / std::sqrt(static_cast<double>(q.size(-1))));
  const auto hidden = torch::ones_like(scores[0], torch::kBool).tril(recipe.diagonal).logical_not();
  torch::Tensor weights;
  if (recipe.softmax_first) {
    weights = torch::softmax(scores, -1).masked_fill(hidden, 0);
  } else {
    weights =
        torch::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
  }
  return {weights, weights.matmul(v)};
}

/// A model of the plainest kind (learned positions, no q/k norm), as `attend` computes it.
class CheckTest {
 public:
  CheckTest() : model(tiny_model(tiny_config(Preset::kClassic))) {
    model->eval();
    sound = subject_of(model, /*fresh_seed=*/1);
  }

  AttentionSubject with_head(const HeadRecipe& recipe) {
    AttentionSubject broken = sound;
    broken.head = [this, recipe](int64_t block, int64_t head, const torch::Tensor& x) {
      return attend(sound, block, head, x, recipe);
    };
    return broken;
  }

  GPT model;
  AttentionSubject sound;
};

}  // namespace

TEST_CASE("a sound model of every kind passes every line", "[inspect]") {
  const auto preset = GENERATE(Preset::kClassic, Preset::kGpt2, Preset::kModern);
  const bool fresh = GENERATE(false, true);
  ModelConfig config = tiny_config(preset);
  config.qkv_bias = preset == Preset::kGpt2;
  config.dropout = 0.1;
  config.n_shift_head = GENERATE(0, 1);
  CAPTURE(enum_name(preset), fresh, config.n_shift_head);
  GPT model = tiny_model(config);
  if (fresh) initialize(model, 3);
  model->eval();
  const AttentionSubject subject = subject_of(model, 1);
  for (const int64_t n_positions : {8, 5, 2}) {
    for (const auto& [name, line] : check(subject, tiny_ids(2, n_positions))) {
      CAPTURE(name, line.value, line.limit, line.detail, n_positions);
      CHECK(line.result == CheckResult::kPass);
    }
  }
  // One position has nothing later, and nothing to compare in a row.
  for (const auto& [name, line] : check(subject, tiny_ids(2, 1))) {
    CAPTURE(name, line.value, line.detail);
    CHECK(line.result != CheckResult::kFail);
  }
}

TEST_CASE("the written-out head of these tests passes where it is not broken", "[inspect]") {
  CheckTest test;
  CHECK(failed(test.with_head({})) == Names{});
}

TEST_CASE("a mask that is off by one is found", "[inspect]") {
  CheckTest test;
  const Names seen = failed(test.with_head({.diagonal = 1}));
  CHECK(contains(seen, "triangle"));
  CHECK(contains(seen, "same input"));  // the weights are not those of the causal softmax
  // The other way: a position does not see itself, and the first one sees nothing.
  CHECK(contains(failed(test.with_head({.diagonal = -1})), "rows"));
}

TEST_CASE("the real mask, changed in place, fails in the real model", "[inspect]") {
  CheckTest test;
  auto& head = *test.model->blocks->ptr(0)->as<BlockImpl>()->attn->heads->ptr(0)->as<HeadImpl>();
  head.tril.copy_(torch::ones({8, 8}, torch::kBool).tril(1));
  const Names seen = failed(test.sound);
  CHECK(contains(seen, "triangle"));
  CHECK(contains(seen, "fused"));
}

TEST_CASE("a model that sees later tokens is found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.logits = [&](const torch::Tensor& ids) {
    torch::Tensor y = test.sound.logits(ids);
    if (ids.size(1) < 2) return y;
    // Each position mixes in a little of the next one.
    y = y.clone();
    const int64_t n = ids.size(1) - 1;
    y.narrow(1, 0, n).add_(test.sound.logits(ids).narrow(1, 1, n), 0.01);
    return y;
  };
  const auto lines = check(broken, tiny_ids(2, 8));
  CHECK(lines.at("causal").result == CheckResult::kFail);
  CHECK(lines.at("causal").value > 1e-4);
  CHECK(failed(broken) == Names{"causal"});

  broken.logits = [](const torch::Tensor& ids) {
    TORCH_CHECK(ids.size(1) <= 8);
    return torch::zeros({ids.size(0), ids.size(1), 32});
  };
  CHECK(check(broken, tiny_ids(2, 8)).at("causal").detail ==
        "the outputs depend on no token at all");
}

TEST_CASE("rows that do not sum to one are found", "[inspect]") {
  CheckTest test;
  CHECK(contains(failed(test.with_head({.softmax_first = true})), "rows"));
}

TEST_CASE("a projection that reads the input before the norm is found and named", "[inspect]") {
  CheckTest test;
  const auto detail = [&](const HeadRecipe& recipe) {
    const CheckLine line = check(test.with_head(recipe), tiny_ids(2, 8)).at("same input");
    CHECK(line.result == CheckResult::kFail);
    return line.detail;
  };
  CHECK_THAT(detail({.raw_query = true}), ContainsSubstring("query reads the input before"));
  CHECK_THAT(detail({.raw_key = true}), ContainsSubstring("key reads the input before"));
  CHECK_THAT(detail({.raw_value = true}), ContainsSubstring("value reads the input before"));
  CHECK_THAT(detail({.raw_query = true, .raw_key = true, .raw_value = true}),
             ContainsSubstring("all three"));
}

TEST_CASE("a wrong scale is found and measured", "[inspect]") {
  CheckTest test;
  const double sqrt_d = std::sqrt(8.0);
  for (const double factor : {sqrt_d, 1 / sqrt_d, 1.05, 1 / std::sqrt(2.0)}) {
    const auto lines = check(test.with_head({.scale_factor = factor}), tiny_ids(2, 8));
    CHECK(lines.at("scale").result == CheckResult::kFail);
    CHECK(lines.at("scale").value == Approx(factor).epsilon(0.01));
    CHECK(lines.at("same input").result == CheckResult::kPass);  // that is another matter
  }
}

TEST_CASE("heads in the wrong order are found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.reference = [&](int64_t block, const torch::Tensor& x) {
    return test.sound.reference(block, x).roll(8, -1);  // head 0 where head 1 belongs
  };
  const Names seen = failed(broken);
  CHECK(contains(seen, "order"));
  CHECK(contains(seen, "fused"));
}

TEST_CASE("heads of another width than C / H are found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.reference = [&](int64_t block, const torch::Tensor& x) {
    return test.sound.reference(block, x).narrow(-1, 0, 15);
  };
  CHECK(contains(failed(broken), "width"));
  broken = test.sound;
  broken.config.n_head = 3;  // 16 / 3
  CHECK(contains(failed(broken), "width"));
}

TEST_CASE("a fast path that differs is found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.fused = [&](int64_t block, const torch::Tensor& x) {
    return test.sound.fused(block, x) * 1.001;
  };
  CHECK(failed(broken) == Names{"fused"});
}

TEST_CASE("a model that takes more than its context, or too long a text, is found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.logits = [&](const torch::Tensor& ids) {
    return test.sound.logits(ids.narrow(1, 0, std::min<int64_t>(ids.size(1), 8)));
  };
  CHECK(failed(broken) == Names{"context"});
  CHECK(check(test.sound, tiny_ids(2, 9)).at("context").result == CheckResult::kFail);
}

TEST_CASE("fresh weights that are far from even are found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.fresh_logits = [&](const torch::Tensor& ids) {
    return test.sound.fresh_logits(ids) * 100;
  };
  CHECK(failed(broken) == Names{"fresh loss"});
}

TEST_CASE("a block that drops its residual or norms late is found", "[inspect]") {
  CheckTest test;
  AttentionSubject broken = test.sound;
  broken.block = [&](int64_t block, const torch::Tensor& x) {
    return test.sound.block(block, x) - x;
  };
  CHECK(failed(broken) == Names{"residual"});
  broken.block = [&](int64_t block, const torch::Tensor& x) {
    return test.sound.normalized(block, test.sound.block(block, x));
  };
  CHECK(failed(broken) == Names{"residual"});
}

TEST_CASE("weights that are not finite fail, and nothing throws", "[inspect]") {
  CheckTest test;
  {
    const torch::NoGradGuard no_grad;
    test.model->token_embedding->weight.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const Names seen = failed(test.sound);
  for (const char* name : {"finite", "causal", "rows", "same input", "fused"}) {
    CAPTURE(name);
    CHECK(contains(seen, name));
  }
  AttentionSubject broken = test.sound;
  broken.head = [](int64_t, int64_t, const torch::Tensor&) -> HeadAttention {
    throw std::runtime_error("no such head");
  };
  CHECK_THAT(check(broken, tiny_ids(2, 8)).at("rows").detail, ContainsSubstring("no such head"));
}

TEST_CASE("a loss below the floor of its text is impossible", "[inspect]") {
  CHECK(check_floor(1000, 990, 500).result == CheckResult::kPass);
  CHECK(check_floor(971, 990, 500).result == CheckResult::kPass);  // chance: up to 20 nats
  const CheckLine line = check_floor(969, 990, 500);
  CHECK(line.result == CheckResult::kFail);
  CHECK(line.value == Approx(1.938));
  CHECK(check_floor(NAN, 990, 500).result == CheckResult::kFail);
}
