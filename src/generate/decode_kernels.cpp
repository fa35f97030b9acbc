#include "tril/generate/decode_kernels.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tril/base/vector_intrinsics.h"
#include "tril/base/vector_math.h"

namespace tril {
namespace {

/// Columns whose products with bytes fit an int32 sum in any instruction set: 2 * 127 * 16383 per
/// pair of columns, 256 pairs.
constexpr int64_t kExactColumns = 512;
constexpr float kLargestShort = 16383.0F;
constexpr float kLargestFloat = std::numeric_limits<float>::max();

namespace portable {
using Floats = float;
constexpr int64_t kFloats = 1;
inline Floats zero_floats() {
  return 0.0F;
}
inline Floats repeated(float v) {
  return v;
}
inline Floats load(const float* p) {
  return *p;
}
inline Floats load(const uint16_t* p) {
  return std::bit_cast<float>(static_cast<uint32_t>(*p) << 16);
}
inline void store(float* p, Floats v) {
  *p = v;
}
inline Floats multiply_add(Floats a, Floats b, Floats sum) {
  return sum + a * b;
}
inline float total(Floats v) {
  return v;
}

using Shorts = int32_t;
using Sums = int32_t;
constexpr int64_t kShorts = 1;
inline Sums zero_sums() {
  return 0;
}
inline Shorts load_shorts(const int16_t* p) {
  return *p;
}
inline Shorts load_shorts(const int8_t* p) {
  return *p;
}
inline Sums add_products(Shorts a, Shorts b, Sums sum) {
  return sum + a * b;
}
inline float total(Sums v) {
  return static_cast<float>(v);
}
#include "decode_loops.inc"
}  // namespace portable

#if defined(__x86_64__)
// What stands between TRIL_FOR_… and TRIL_END_FOR is compiled for that instruction set.
// clang-format off
#if defined(__clang__)
#define TRIL_FOR_AVX2 _Pragma("clang attribute push(__attribute__((target(\"avx2,fma\"))), apply_to = function)")
#define TRIL_FOR_AVX512 _Pragma("clang attribute push(__attribute__((target(\"avx512f,avx512bw,avx512dq,avx512vl,fma\"))), apply_to = function)")
#define TRIL_END_FOR _Pragma("clang attribute pop")
#else
#define TRIL_FOR_AVX2 _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma\")")
#define TRIL_FOR_AVX512 _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512\")")
#define TRIL_END_FOR _Pragma("GCC pop_options")
#endif
// clang-format on

TRIL_FOR_AVX2
namespace avx2 {
using Floats = __m256;
constexpr int64_t kFloats = 8;
inline Floats zero_floats() {
  return _mm256_setzero_ps();
}
inline Floats repeated(float v) {
  return _mm256_set1_ps(v);
}
inline Floats load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline Floats load(const uint16_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline void store(float* p, Floats v) {
  _mm256_storeu_ps(p, v);
}
inline Floats multiply_add(Floats a, Floats b, Floats sum) {
  return _mm256_fmadd_ps(a, b, sum);
}
inline float total(Floats v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

struct Shorts {
  __m256i v;
};
struct Sums {
  __m256i v;
};
constexpr int64_t kShorts = 16;
inline Sums zero_sums() {
  return {_mm256_setzero_si256()};
}
inline Shorts load_shorts(const int16_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline Shorts load_shorts(const int8_t* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Sums add_products(Shorts a, Shorts b, Sums sum) {
  return {_mm256_add_epi32(sum.v, _mm256_madd_epi16(a.v, b.v))};
}
inline float total(Sums s) {
  return total(_mm256_cvtepi32_ps(s.v));
}
#include "decode_loops.inc"
}  // namespace avx2
TRIL_END_FOR

TRIL_FOR_AVX512
namespace avx512 {
using Floats = __m512;
constexpr int64_t kFloats = 16;
inline Floats zero_floats() {
  return _mm512_setzero_ps();
}
inline Floats repeated(float v) {
  return _mm512_set1_ps(v);
}
inline Floats load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline Floats load(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline void store(float* p, Floats v) {
  _mm512_storeu_ps(p, v);
}
inline Floats multiply_add(Floats a, Floats b, Floats sum) {
  return _mm512_fmadd_ps(a, b, sum);
}
inline float total(Floats v) {
  return _mm512_reduce_add_ps(v);
}

struct Shorts {
  __m512i v;
};
struct Sums {
  __m512i v;
};
constexpr int64_t kShorts = 32;
inline Sums zero_sums() {
  return {_mm512_setzero_si512()};
}
inline Shorts load_shorts(const int16_t* p) {
  return {_mm512_loadu_si512(p)};
}
inline Shorts load_shorts(const int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Sums add_products(Shorts a, Shorts b, Sums sum) {
  return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(a.v, b.v))};
}
inline float total(Sums s) {
  return total(_mm512_cvtepi32_ps(s.v));
}
#include "decode_loops.inc"
}  // namespace avx512
TRIL_END_FOR
#endif

}  // namespace

DecodeKernels decode_kernels_portable(Activation activation) {
  return portable::kernels_of(activation);
}

DecodeKernels decode_kernels(Activation activation) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return avx512::kernels_of(activation);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return avx2::kernels_of(activation);
  }
#endif
  return decode_kernels_portable(activation);
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FC0;  // not a number
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float to_shorts(const float* x, int64_t n, int16_t* out) {
  float largest = 0.0F;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const float size = std::fabs(x[i]);
    largest = size > largest ? size : largest;
    finite = finite && size <= kLargestFloat;
  }
  if (!finite) {  // the caller sees it in the result
    for (int64_t i = 0; i < n; ++i) out[i] = 1;
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float factor = largest > 0.0F ? kLargestShort / largest : 0.0F;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int16_t>(std::lrintf(x[i] * factor));
  return largest / kLargestShort;
}

}  // namespace tril
