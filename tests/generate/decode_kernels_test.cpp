#include "tril/generate/decode_kernels.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.h"

using namespace tril;

namespace {

/// Numbers in [-1, 1), in no order.
std::vector<float> numbers(size_t n, uint32_t seed) {
  std::vector<float> result(n);
  for (float& v : result) {
    seed = seed * 1664525U + 1013904223U;
    v = static_cast<float>(static_cast<int32_t>(seed)) / 2147483648.0F;
  }
  return result;
}

float widen(float w) {
  return w;
}
float widen(uint16_t w) {
  return std::bit_cast<float>(static_cast<uint32_t>(w) << 16);
}
float widen(int8_t w) {
  return static_cast<float>(w);
}
float widen(int16_t w) {
  return static_cast<float>(w);
}

template <typename Weight>
std::vector<Weight> narrow(const std::vector<float>& values) {
  std::vector<Weight> result;
  for (const float v : values) {
    if constexpr (std::is_same_v<Weight, uint16_t>) {
      result.push_back(to_bf16(v));
    } else if constexpr (std::is_same_v<Weight, int8_t>) {
      result.push_back(static_cast<int8_t>(std::lround(v * 127)));
    } else if constexpr (std::is_same_v<Weight, int16_t>) {
      result.push_back(static_cast<int16_t>(std::lround(v * 16383)));
    } else {
      result.push_back(v);
    }
  }
  return result;
}

template <typename Weight, typename X>
void check_product(MatrixKernel<Weight, X> kernel) {
  // Columns around the vector widths; rows and vectors around the groups of four.
  for (const int64_t columns : {1, 3, 16, 31, 64, 100, 600}) {
    for (const int64_t rows : {1, 4, 7}) {
      for (const int64_t n : {1, 2, 4, 6}) {
        const auto weight = narrow<Weight>(numbers(static_cast<size_t>(rows * columns), 1));
        const auto x = narrow<X>(numbers(static_cast<size_t>(n * columns), 2));
        const int64_t begin = rows > 4 ? 1 : 0;
        std::vector<float> out(static_cast<size_t>(n * rows), 99.0F);
        kernel(weight.data(), columns, begin, rows, x.data(), n, out.data(), rows);
        for (int64_t m = 0; m < n; ++m) {
          for (int64_t r = begin; r < rows; ++r) {
            double expected = 0;
            double size = 0;
            for (int64_t c = 0; c < columns; ++c) {
              const double term =
                  static_cast<double>(widen(weight[static_cast<size_t>(r * columns + c)])) *
                  static_cast<double>(widen(x[static_cast<size_t>(m * columns + c)]));
              expected += term;
              size += std::fabs(term);
            }
            CAPTURE(columns, rows, n, m, r);
            CHECK(std::fabs(static_cast<double>(out[static_cast<size_t>(m * rows + r - begin)]) -
                            expected) <= 1e-5 * size);
          }
        }
        if (begin > 0) CHECK(out[static_cast<size_t>(rows - 1)] == 99.0F);  // nothing beyond
      }
    }
  }
}

template <typename Value>
void check_attention(AttentionKernel<Value> kernel) {
  for (const int64_t d : {2, 16, 64}) {
    for (const int64_t positions : {1, 3, 4, 9, 130}) {
      const auto query = numbers(static_cast<size_t>(d), 3);
      const auto keys = narrow<Value>(numbers(static_cast<size_t>(positions * d), 4));
      const auto values = narrow<Value>(numbers(static_cast<size_t>(positions * d), 5));
      const float scale = 3.0F;
      std::vector<float> scores(static_cast<size_t>(positions));
      std::vector<float> out(static_cast<size_t>(d));
      kernel(
          query.data(), keys.data(), values.data(), positions, d, scale, scores.data(), out.data());
      std::vector<double> weights;
      double sum = 0;
      for (int64_t t = 0; t < positions; ++t) {
        double dot = 0;
        for (int64_t i = 0; i < d; ++i) {
          dot += static_cast<double>(query[static_cast<size_t>(i)]) *
                 static_cast<double>(widen(keys[static_cast<size_t>(t * d + i)]));
        }
        weights.push_back(std::exp(3.0 * dot));
        sum += weights.back();
      }
      for (int64_t i = 0; i < d; ++i) {
        double expected = 0;
        for (int64_t t = 0; t < positions; ++t) {
          expected += weights[static_cast<size_t>(t)] / sum *
                      static_cast<double>(widen(values[static_cast<size_t>(t * d + i)]));
        }
        CAPTURE(d, positions, i);
        CHECK(static_cast<double>(out[static_cast<size_t>(i)]) == Approx(expected).margin(2e-5));
      }
    }
  }
}

double reference(Activation activation, double x, double gate) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return x > 0 ? x * x : 0.0;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::kSwiglu:
      break;
  }
  return gate / (1 + std::exp(-gate)) * x;
}

}  // namespace

TEST_CASE("products of every weight format are those of the plain sum", "[generate]") {
  for (const auto& kernels :
       {decode_kernels(Activation::kRelu), decode_kernels_portable(Activation::kRelu)}) {
    check_product(kernels.fp32);
    check_product(kernels.bf16);
    check_product(kernels.int8);
  }
}

TEST_CASE("the largest bytes and 16-bit numbers do not overflow", "[generate]") {
  constexpr int64_t kColumns = 8192;
  const std::vector<int8_t> weight(kColumns, -127);
  const std::vector<int16_t> x(kColumns, 16383);
  for (const auto& kernels :
       {decode_kernels(Activation::kRelu), decode_kernels_portable(Activation::kRelu)}) {
    float out = 0;
    kernels.int8(weight.data(), kColumns, 0, 1, x.data(), 1, &out, 1);
    CHECK(static_cast<double>(out) == Approx(-127.0 * 16383 * kColumns));
  }
}

TEST_CASE("numbers become 16-bit numbers and a scale", "[generate]") {
  const std::vector<float> x = {0.0F, -2.0F, 1.0F, 0.00003F};
  std::vector<int16_t> shorts(4);
  const float scale = to_shorts(x.data(), 4, shorts.data());
  CHECK(shorts == std::vector<int16_t>{0, -16383, 8192, 0});
  CHECK(scale == Approx(2.0F / 16383));
  const std::vector<float> zeros(4, 0.0F);
  CHECK(to_shorts(zeros.data(), 4, shorts.data()) == 0.0F);
  CHECK(shorts == std::vector<int16_t>(4, 0));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> broken = {1.0F, bad};
    CHECK(std::isnan(to_shorts(broken.data(), 2, shorts.data())));  // shows in every product
  }
}

TEST_CASE("attention over a cache is the softmax written out", "[generate]") {
  for (const auto& kernels :
       {decode_kernels(Activation::kRelu), decode_kernels_portable(Activation::kRelu)}) {
    check_attention<float>(kernels.attention_fp32);
    check_attention<uint16_t>(kernels.attention_bf16);
  }
}

TEST_CASE("the activations of a step are the exact functions", "[generate]") {
  for (const Activation activation : {Activation::kRelu,
                                      Activation::kReluSquared,
                                      Activation::kGelu,
                                      Activation::kGeluTanh,
                                      Activation::kSwiglu}) {
    for (const auto& kernels : {decode_kernels(activation), decode_kernels_portable(activation)}) {
      std::vector<float> x;
      std::vector<float> gate;
      for (int i = -1000; i <= 1000; ++i) {
        x.push_back(static_cast<float>(i) * 0.05F);
        gate.push_back(static_cast<float>((i * 7) % 1000) * 0.05F);
      }
      const auto before = x;
      kernels.activation(x.data(), gate.data(), static_cast<int64_t>(x.size()));
      for (size_t i = 0; i < x.size(); ++i) {
        const double expected =
            reference(activation, static_cast<double>(before[i]), static_cast<double>(gate[i]));
        CAPTURE(enum_name(activation), before[i], gate[i]);
        CHECK(std::fabs(static_cast<double>(x[i]) - expected) <=
              2e-6 * std::max(1.0, std::fabs(expected)));
      }
    }
  }
}

TEST_CASE("bf16 is rounded to the nearest number, ties to even", "[generate]") {
  CHECK(to_bf16(1.0F) == 0x3F80);
  CHECK(to_bf16(-2.0F) == 0xC000);
  CHECK(to_bf16(std::bit_cast<float>(0x3F808000U)) == 0x3F80);  // a tie: to even
  CHECK(to_bf16(std::bit_cast<float>(0x3F818000U)) == 0x3F82);  // a tie: to even
  CHECK(to_bf16(std::bit_cast<float>(0x3F808001U)) == 0x3F81);
  CHECK(to_bf16(std::numeric_limits<float>::infinity()) == 0x7F80);
  CHECK((to_bf16(std::numeric_limits<float>::quiet_NaN()) & 0x7FC0) == 0x7FC0);
}
