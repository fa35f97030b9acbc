// The CPU's fused attention against softmax(q k^T / sqrt(D)) v written out.

#include "tril/model/packed_attention.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../src/model/attention_kernel.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/head.h"
#include "tril/model/multi_head_attention.h"

namespace tril {
namespace {

constexpr int64_t kHeads = 3;
constexpr int64_t kHeadSize = 8;

/// In float64, with T x T materialised. (B, T, 3C) -> (B, T, C)
torch::Tensor written_out(const torch::Tensor& qkv, const PackedAttentionOptions& options) {
  const int64_t t = qkv.size(1);
  const auto parts = qkv.to(torch::kFloat64).unflatten(-1, {3, kHeads, kHeadSize}).unbind(2);
  torch::Tensor q = parts[0].transpose(1, 2), k = parts[1].transpose(1, 2);  // (B, H, T, D)
  if (options.qk_norm) {
    q = normalize_qk(q, options.norm_epsilon);
    k = normalize_qk(k, options.norm_epsilon);
  }
  if (options.rotary.cos.defined()) {
    q = apply_rotary(q, options.rotary);
    k = apply_rotary(k, options.rotary);
  }
  k = shift_keys(k, options.n_shift_head);
  const auto future = torch::ones({t, t}, torch::kBool).tril().logical_not();
  const auto scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(double{kHeadSize});
  torch::Tensor weights = torch::softmax(scores.masked_fill(future, -INFINITY), -1);
  if (options.dropout > 0) {
    weights =
        weights * attention_dropout_mask(qkv.size(0), kHeads, t, options.dropout, options.seed);
  }
  return weights.matmul(parts[2].transpose(1, 2)).transpose(1, 2).flatten(2);
}

std::vector<PackedAttentionOptions> all_options(int64_t n_positions) {
  PackedAttentionOptions plain{.n_head = kHeads, .seed = 5};
  PackedAttentionOptions norm = plain, rotated = plain, dropped = plain;
  norm.qk_norm = true;
  rotated.rotary = make_rotary_table(n_positions + 3, kHeadSize, 10000.0);
  dropped.dropout = 0.3;
  PackedAttentionOptions shifted = plain;
  shifted.n_shift_head = 2;
  PackedAttentionOptions all = rotated;
  all.n_shift_head = 1;
  all.qk_norm = true;
  all.dropout = 0.2;
  return {plain, norm, rotated, dropped, shifted, all};
}

TEST_CASE("packed attention equals the written-out form: value and gradient",
          "[model][attention]") {
  torch::manual_seed(1);
  // One row, a part of a block, a whole one, one row more, several blocks.
  for (const int64_t t : {int64_t{1}, int64_t{17}, kQueryRows, kQueryRows + 1, int64_t{200}}) {
    const auto options = all_options(t);
    for (size_t i = 0; i < options.size(); ++i) {
      INFO("T " << t << ", options " << i);
      const torch::Tensor qkv = torch::randn({2, t, 3 * kHeads * kHeadSize}).requires_grad_(true);
      const torch::Tensor plain = written_out(qkv, options[i]);
      const torch::Tensor direction = torch::randn_like(plain);
      const torch::Tensor fused = packed_attention(qkv, options[i]);
      CHECK_CLOSE(fused, plain, testing::kFp32Tolerance);
      CHECK_CLOSE(torch::autograd::grad({fused}, {qkv}, {direction.to(torch::kFloat32)})[0],
                  torch::autograd::grad({plain}, {qkv}, {direction})[0],
                  testing::kFp32Tolerance);
    }
  }
}

TEST_CASE("packed attention in bfloat16 differs by its rounding only", "[model][attention]") {
  torch::manual_seed(1);
  for (const int64_t t : {int64_t{1}, int64_t{17}, int64_t{130}}) {
    for (const auto& options : all_options(t)) {
      const torch::Tensor qkv =
          torch::randn({2, t, 3 * kHeads * kHeadSize}).to(torch::kBFloat16).requires_grad_(true);
      const torch::Tensor plain = written_out(qkv, options);
      const torch::Tensor direction = torch::randn_like(plain).to(torch::kBFloat16);
      const torch::Tensor fused = packed_attention(qkv, options);
      REQUIRE(fused.scalar_type() == torch::kBFloat16);
      CHECK_CLOSE(fused, plain, testing::kBf16Tolerance);
      CHECK_CLOSE(torch::autograd::grad({fused}, {qkv}, {direction})[0],
                  torch::autograd::grad({plain}, {qkv}, {direction.to(torch::kFloat64)})[0],
                  testing::kBf16Tolerance);
    }
  }
}

TEST_CASE("bfloat16 attention's gradients are off by rounding, to no side", "[model][attention]") {
  torch::manual_seed(4);
  const int64_t t = 130;
  for (const auto& options : all_options(t)) {
    const torch::Tensor qkv = torch::randn({16, t, 3 * kHeads * kHeadSize}).to(torch::kBFloat16);
    const torch::Tensor in = qkv.detach().requires_grad_(true);
    const torch::Tensor plain = written_out(in, options), fused = packed_attention(in, options);
    const torch::Tensor direction = torch::randn_like(plain).to(torch::kBFloat16);
    const auto split = [](const torch::Tensor& gradient) {
      return gradient.to(torch::kFloat64).chunk(3, /*dim=*/-1);  // of q, k and v
    };
    const auto exact =
        split(torch::autograd::grad({plain}, {in}, {direction.to(torch::kFloat64)})[0]);
    const auto fast = split(torch::autograd::grad({fused}, {in}, {direction})[0]);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double size = exact[i].norm().item<double>();
      const double error = (fast[i] - exact[i]).norm().item<double>() / size;
      const double length = (fast[i] * exact[i]).sum().item<double>() / (size * size);
      INFO("part " << i << ", error " << error << ", length " << length);
      CHECK(error < 0.01);
      CHECK(std::abs(length - 1) < 1e-3);
    }
  }
}

/// Floats behind the working memory that must stay as they are.
constexpr int64_t kBeyond = 8192;

/// Output, log sums and gradients of one head, by the fastest or the portable kernels.
template <typename T, typename Stored>
torch::Tensor run_head(const HeadShape& shape, const torch::Tensor& qkv_dy, bool portable) {
  const int64_t t = shape.n_positions, d = shape.head_size, size = t * d;
  const auto kernels = portable ? head_kernels_portable<T>() : head_kernels<T>(shape);
  torch::Tensor out = torch::empty({t, d}, qkv_dy.options()), log_sum = torch::empty({t}),
                grads = torch::empty({3, t, d}, qkv_dy.options()),
                scratch = torch::full({head_scratch_size(shape) + kBeyond}, std::nanf(""));
  const torch::Tensor beyond = scratch.narrow(0, head_scratch_size(shape), kBeyond);
  const auto* in = reinterpret_cast<const T*>(qkv_dy.const_data_ptr<Stored>());
  auto* y = reinterpret_cast<T*>(out.mutable_data_ptr<Stored>());
  auto* g = reinterpret_cast<T*>(grads.mutable_data_ptr<Stored>());
  auto* sums = log_sum.mutable_data_ptr<float>();
  auto* room = scratch.mutable_data_ptr<float>();
  kernels.forward({shape, 9, in, in + size, in + 2 * size, y, sums, room});
  scratch.fill_(std::nanf(""));
  kernels.backward({shape,
                    9,
                    in,
                    in + size,
                    in + 2 * size,
                    y,
                    sums,
                    in + 3 * size,
                    g,
                    g + size,
                    g + 2 * size,
                    room});
  CHECK(beyond.isnan().all().item<bool>());  // nothing is written behind the working memory
  return torch::cat(
      {out.flatten().to(torch::kFloat32), log_sum, grads.flatten().to(torch::kFloat32)});
}

TEST_CASE("attention kernels: this processor's and the portable ones agree, in any shape",
          "[model][attention]") {
  torch::manual_seed(2);
  for (const int64_t t : {1, 2, 15, 24, 25, 31, 47, 70, 129}) {
    for (const int64_t d : {1, 6, 16, 33, 64, 100, 1024}) {
      if (d == 1024 && t != 31) continue;  // takes long, and is like the others
      for (const int64_t key_shift : {0, 1}) {
        CAPTURE(t, d, key_shift);
        HeadShape shape;
        shape.n_positions = t;
        shape.head_size = shape.qkv_stride = shape.out_stride = d;
        shape.scale = 1.0F / std::sqrt(static_cast<float>(d));
        shape.qk_norm = d > 1;
        shape.norm_epsilon = 1e-5F;
        shape.key_shift = key_shift;
        shape.dropout = d == 6 ? 0.1F : 0.0F;
        const torch::Tensor in = torch::randn({4, t, d});
        CHECK_CLOSE((run_head<float, float>(shape, in, false)),
                    (run_head<float, float>(shape, in, true)),
                    1e-5);
        const torch::Tensor narrow = in.to(torch::kBFloat16);
        // Rounding: no single number, but each part as a whole.
        const torch::Tensor fast = run_head<Bf16, at::BFloat16>(shape, narrow, false),
                            plain = run_head<Bf16, at::BFloat16>(shape, narrow, true);
        const std::vector<int64_t> sizes{t * d, t, t * d, t * d, t * d};  // y, log sums, dq, dk, dv
        const auto ours = fast.split_with_sizes(sizes), theirs = plain.split_with_sizes(sizes);
        for (size_t part = 0; part < sizes.size(); ++part) {
          CAPTURE(part);
          const auto rms = [](const torch::Tensor& x) {
            return x.square().mean().sqrt().item<double>();
          };
          CHECK(rms(ours[part] - theirs[part]) < 0.02 * std::max(rms(theirs[part]), 0.25));
        }
      }
    }
  }
}

TEST_CASE("attention passes NaN on, and to later positions only", "[model][attention]") {
  torch::Tensor poisoned = torch::randn({1, 5, 3 * kHeads * kHeadSize});
  poisoned[0][2][0] = std::nanf("");  // a query of position 2
  const auto y = packed_attention(poisoned, {.n_head = kHeads});
  CHECK(y[0][2][0].isnan().item<bool>());
  CHECK_FALSE(y.narrow(1, 0, 2).isnan().any().item<bool>());
}

TEST_CASE("attention dropout keeps the scale, and its share", "[model][attention]") {
  const torch::Tensor mask = attention_dropout_mask(2, 2, 100, 0.3, 7);
  CHECK(mask.max().item<double>() == Approx(1 / 0.7));
  CHECK(mask.eq(0).to(torch::kFloat64).mean().item<double>() == Approx(0.3).margin(0.01));
  CHECK_FALSE(torch::equal(mask[0][0], mask[0][1]));
  CHECK_FALSE(torch::equal(mask[0][0], mask[1][0]));
  CHECK_FALSE(torch::equal(mask, attention_dropout_mask(2, 2, 100, 0.3, 8)));
}

TEST_CASE("attention dropout follows the default generator", "[model][attention]") {
  ModelConfig config = testing::tiny_config(Preset::kModern);
  config.dropout = 0.5;
  MultiHeadAttention attention(config, make_attention_tables(config));
  const auto x = torch::randn({1, 8, config.n_embed});
  torch::manual_seed(11);
  const auto first = attention->fused(x), second = attention->fused(x);
  torch::manual_seed(11);
  CHECK(torch::equal(attention->fused(x), first));
  CHECK_FALSE(torch::equal(first, second));
}

}  // namespace
}  // namespace tril
