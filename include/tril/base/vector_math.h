#pragma once
// Mathematics without library calls, so that loops around it become vector code. Only for kernel
// files; every function is inlined into a loop that is compiled once per instruction set.

#include <bit>
#include <cstdint>

#define TRIL_INLINE __attribute__((always_inline)) inline

namespace tril {

/// exp(x) for x <= 0, by 2^n * e^r, n whole and r in [-ln 2 / 2, ln 2 / 2], with a Taylor
/// polynomial to degree 6: relative error below 2e-7. Below -87 it stays at e^-87 (1.6e-38).
TRIL_INLINE float exp_not_positive(float x) {
  x = x < -87.0F ? -87.0F : x;
  constexpr float kLog2E = 1.44269504F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float n = (x * kLog2E + kRound) - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;  // ln 2 in two parts
  float p = 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto exponent = static_cast<int32_t>(n) + 127;
  return p * std::bit_cast<float>(exponent << 23);
}

/// A bfloat16 number: the upper half of a float's bits.
struct Bf16 {
  uint16_t bits;
};

TRIL_INLINE float to_float(float x) {
  return x;
}
TRIL_INLINE float to_float(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

TRIL_INLINE void store(float x, float* out) {
  *out = x;
}
/// Rounds to nearest, ties to even; NaN stays NaN.
TRIL_INLINE void store(float x, Bf16* out) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  // A mask, not a branch: GCC makes no vector code of a branch here.
  const uint32_t nan = 0U - static_cast<uint32_t>((bits & 0x7FFFFFFFU) > 0x7F800000U);
  out->bits = static_cast<uint16_t>((rounded & ~nan) | (0x7FC0U & nan));
}

/// A loop of nothing but conversions becomes vector code.
template <typename T>
TRIL_INLINE void to_floats(const T* __restrict x, float* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i]);
}

/// All bits of a number mixed into all bits (C. Wellons' lowbias32).
TRIL_INLINE uint32_t mix_bits(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  return x ^ (x >> 16);
}

}  // namespace tril
