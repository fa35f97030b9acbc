// Chunked linear + cross-entropy against the plain form.

#include <torch/torch.h>

#include <cmath>

#include "../../src/model/loss_kernel.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/autocast.h"
#include "tril/model/loss.h"

namespace tril {
namespace {

struct Inputs {
  torch::Tensor hidden, weight, bias, targets;
};

Inputs make_inputs(int64_t rows, int64_t padded_vocab, int64_t vocab, torch::ScalarType dtype) {
  torch::manual_seed(1);
  const auto options = torch::TensorOptions().dtype(dtype);
  return {torch::randn({1, rows, 6}, options).requires_grad_(true),
          torch::randn({padded_vocab, 6}, options).requires_grad_(true),
          torch::randn({padded_vocab}, options).requires_grad_(true),
          torch::randint(vocab, {1, rows}, torch::kInt64)};
}

TEST_CASE("chunked loss equals the plain one: value and every gradient", "[model][loss]") {
  // 90 000 ids make chunks of 286 rows: 700 rows are three chunks, the last one short.
  for (const auto& [rows, vocab, padded] :
       {std::tuple<int64_t, int64_t, int64_t>{5, 11, 11}, {5, 11, 16}, {700, 90000, 90000}}) {
    for (const bool with_bias : {true, false}) {
      // LibTorch's operators in double, own kernels in float.
      for (const auto& [dtype, scale] :
           {std::pair{torch::kFloat64, 1.0}, {torch::kFloat64, 0.25}, {torch::kFloat32, 0.25}}) {
        INFO("rows " << rows << " V " << vocab << " padded " << padded << " bias " << with_bias
                     << " " << dtype);
        const double tolerance = dtype == torch::kFloat64 ? 1e-10 : testing::kFp32Tolerance;
        const Inputs in = make_inputs(rows, padded, vocab, dtype);
        const torch::Tensor bias = with_bias ? in.bias : torch::Tensor();
        const auto logits = torch::linear(in.hidden, in.weight, bias).narrow(-1, 0, vocab);
        const auto plain = cross_entropy(logits, in.targets) * scale;
        const auto chunked =
            linear_cross_entropy(in.hidden, in.weight, bias, in.targets, vocab, scale);
        CHECK_CLOSE(chunked, plain, tolerance);
        std::vector<torch::Tensor> wrt = {in.hidden, in.weight};
        if (with_bias) wrt.push_back(in.bias);
        // 3 is not 1: the gradient that arrives from outside is used.
        const auto expected = torch::autograd::grad({plain * 3}, wrt);
        const auto found = torch::autograd::grad({chunked * 3}, wrt);
        for (size_t i = 0; i < wrt.size(); ++i) CHECK_CLOSE(found[i], expected[i], tolerance);
      }
    }
  }
}

TEST_CASE("loss kernels: this processor's and the portable ones agree, NaN is passed on",
          "[model][loss]") {
  torch::manual_seed(3);
  const torch::Tensor logits = torch::randn({4, 37}) * 20, targets = torch::randint(31, {4});
  torch::Tensor results[2];
  for (int portable = 0; portable < 2; ++portable) {
    torch::Tensor p = logits.clone(), losses = torch::empty({4});
    const auto kernel =
        portable ? cross_entropy_kernel_portable<float>() : cross_entropy_kernel<float>();
    kernel(p.mutable_data_ptr<float>(),
           targets.const_data_ptr<int64_t>(),
           4,
           37,
           31,
           0.5F,
           losses.mutable_data_ptr<float>());
    CHECK(p.narrow(1, 31, 6).abs().max().item<double>() == 0);  // the padding
    results[portable] = torch::cat({p.flatten(), losses});
  }
  CHECK_CLOSE(results[0], results[1], 1e-5);
  const auto poisoned = torch::full({1, 2, 3}, std::nanf(""));
  const auto weight = torch::randn({5, 3});
  CHECK(linear_cross_entropy(poisoned, weight, {}, torch::zeros({1, 2}, torch::kInt64), 5)
            .isnan()
            .item<bool>());
}

TEST_CASE("chunked loss in bf16 stays within bf16's round-off of fp32", "[model][loss]") {
  const Inputs in = make_inputs(40, 64, 64, torch::kFloat32);
  const auto plain = linear_cross_entropy(in.hidden, in.weight, in.bias, in.targets, 64);
  const auto expected = torch::autograd::grad({plain}, {in.hidden, in.weight});
  torch::Tensor low;
  {
    const AutocastGuard autocast(torch::kCPU, torch::kBFloat16);
    low = linear_cross_entropy(in.hidden, in.weight, in.bias, in.targets, 64);
  }
  CHECK(low.scalar_type() == torch::kFloat32);
  CHECK_CLOSE(low, plain, testing::kBf16Tolerance);
  CHECK_FALSE(torch::equal(low, plain));  // bf16 was really used
  const auto found = torch::autograd::grad({low}, {in.hidden, in.weight});
  for (size_t i = 0; i < 2; ++i) CHECK_CLOSE(found[i], expected[i], testing::kBf16Tolerance);
}

TEST_CASE("chunked loss in fp16: gradients of many tokens do not vanish", "[model][loss]") {
  // In a mean over so many each counts 2.5e-6, and the steps of fp16 are 6e-8 there.
  const Inputs in = make_inputs(400000, 8, 8, torch::kFloat32);
  const auto plain = linear_cross_entropy(in.hidden, in.weight, in.bias, in.targets, 8);
  const auto expected = torch::autograd::grad({plain}, {in.hidden, in.weight, in.bias});
  const AutocastGuard autocast(torch::kCPU, torch::kFloat16);
  const auto low = linear_cross_entropy(in.hidden, in.weight, in.bias, in.targets, 8);
  CHECK(low.scalar_type() == torch::kFloat32);
  CHECK_CLOSE(low, plain, 1e-3);
  const auto found = torch::autograd::grad({low}, {in.hidden, in.weight, in.bias});
  for (size_t i = 0; i < found.size(); ++i) {
    const double size = expected[i].abs().max().item<double>();
    CHECK_CLOSE(found[i] / size, expected[i] / size, 2e-3);
  }
}

TEST_CASE("a loss worked out by hand", "[model][loss]") {
  // Logits (0, ln 3): probabilities 1/4 and 3/4. Targets 1 and 0: mean of ln(4/3) and ln 4.
  const auto hidden = torch::ones({1, 2, 1});
  const auto weight = torch::tensor({0.0, std::log(3.0)}).to(torch::kFloat32).view({2, 1});
  const auto targets = torch::tensor({{1, 0}}, torch::kInt64);
  const double expected = (std::log(4.0 / 3.0) + std::log(4.0)) / 2;
  CHECK(linear_cross_entropy(hidden, weight, {}, targets, 2).item<double>() == Approx(expected));
}

TEST_CASE("one id in the vocabulary: the loss is exactly zero", "[model][loss]") {
  ModelConfig config = testing::tiny_config();
  config.vocab_size = 1;
  GPT model = testing::tiny_model(config);
  const auto ids = torch::zeros({2, 8}, torch::kInt64);
  CHECK(training_loss(model, ids, ids).item<double>() == 0.0);
}

TEST_CASE("losses of single tokens have the training loss as their mean", "[model][loss]") {
  GPT model = testing::tiny_model(testing::tiny_config());
  const auto ids = testing::tiny_ids(2, 9);
  const auto inputs = ids.narrow(1, 0, 8), targets = ids.narrow(1, 1, 8);
  const auto losses = token_losses(model, inputs, targets);
  CHECK(losses.sizes() == at::IntArrayRef({2, 8}));
  CHECK_CLOSE(losses.mean(), training_loss(model, inputs, targets), testing::kFp32Tolerance);
}

}  // namespace
}  // namespace tril
