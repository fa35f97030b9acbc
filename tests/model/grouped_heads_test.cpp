// Heads that share keys and values (n_kv_head).

#include <map>
#include <string>
#include <utility>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/loss.h"
#include "tril/optim/parameters.h"

using namespace tril;
using namespace tril::testing;

namespace {

ModelConfig grouped(int64_t n_kv_head, AttentionPath path = AttentionPath::kFused) {
  ModelConfig config = tiny_config();
  config.n_head = 4;
  config.n_kv_head = n_kv_head;
  config.qkv_bias = true;
  config.attention = path;
  return config;
}

std::map<std::string, torch::Tensor> named(const GPT& model) {
  std::map<std::string, torch::Tensor> result;
  for (const auto& [name, tensor] : unique_parameters(*model)) result[name] = tensor;
  return result;
}

}  // namespace

TEST_CASE("the fused path equals the reference with grouped heads", "[model]") {
  for (const auto& [n_kv_head, n_shift_head] : {std::pair{1, 0}, {2, 0}, {4, 0}, {2, 2}}) {
    CAPTURE(n_kv_head, n_shift_head);
    ModelConfig config = grouped(n_kv_head);
    config.n_shift_head = n_shift_head;
    GPT fused = tiny_model(config);
    config.attention = AttentionPath::kReference;
    GPT reference = tiny_model(config);
    const torch::Tensor ids = tiny_ids(3, 8);
    const torch::Tensor targets = tiny_ids(3, 8).flip(1);
    const torch::Tensor a = training_loss(fused, ids, targets);
    const torch::Tensor b = training_loss(reference, ids, targets);
    CHECK(first_difference(a, b, kFp32Tolerance) == "");
    a.backward();
    b.backward();
    const auto expected = named(reference);
    for (const auto& [name, tensor] : named(fused)) {
      CAPTURE(name);
      CHECK(first_difference(tensor.grad(), expected.at(name).grad(), 1e-4) == "");
    }
  }
}

TEST_CASE("a shared key is one parameter, under the name of its group's first head", "[model]") {
  GPT model = tiny_model(grouped(2));
  const auto parameters = named(model);
  CHECK(parameters.contains("blocks.0.attn.heads.0.key.weight"));
  CHECK_FALSE(parameters.contains("blocks.0.attn.heads.1.key.weight"));
  CHECK(parameters.contains("blocks.0.attn.heads.2.value.bias"));
  CHECK_FALSE(parameters.contains("blocks.0.attn.heads.3.value.bias"));
  CHECK(parameters.contains("blocks.0.attn.heads.3.query.weight"));
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) count += tensor.numel();
  CHECK(count == parameter_count(model->config()));
}

TEST_CASE("grouped heads equal separate heads with equal keys and values", "[model]") {
  const torch::NoGradGuard no_grad;
  GPT model = tiny_model(grouped(2));
  ModelConfig config = grouped(0);
  GPT separate(config);
  const auto from = named(model);
  for (const auto& [name, tensor] : named(separate)) {
    std::string source = name;
    for (const std::string part : {"key", "value"}) {
      for (const auto& [own, first] : {std::pair{"1", "0"}, std::pair{"3", "2"}}) {
        const std::string shared = std::string("heads.") + own + "." + part;
        const size_t at = source.find(shared);
        if (at != std::string::npos) source.replace(at + 6, 1, first);
      }
    }
    tensor.copy_(from.at(source));
  }
  const torch::Tensor ids = tiny_ids(2, 8);
  CHECK(first_difference(model->forward(ids), separate->forward(ids), kFp32Tolerance) == "");
}

TEST_CASE("a number of groups that does not divide the heads is refused", "[model]") {
  CHECK_THROWS_WITH(validate(grouped(3), "a.json"), ContainsSubstring("n_head 4 and n_kv_head 3"));
}

TEST_CASE("shifted heads are at most all heads, in whole groups", "[model]") {
  ModelConfig config = grouped(2);
  config.n_shift_head = 1;
  CHECK_THROWS_WITH(validate(config, "a.json"),
                    ContainsSubstring("a.json: model.n_shift_head") &&
                        ContainsSubstring("in whole groups of 2 heads") &&
                        ContainsSubstring("found 1 of 4"));
  config.n_shift_head = 6;
  CHECK_THROWS_WITH(validate(config, "a.json"), ContainsSubstring("found 6 of 4"));
  for (const int64_t n : {0, 2, 4}) {
    config.n_shift_head = n;
    CHECK_NOTHROW(validate(config, "a.json"));
  }
}
