#include "bf16_rounding.h"

#include "dispatch.h"
#include "tril/base/vector_intrinsics.h"

namespace tril {
namespace {

TRIL_INLINE void store_each(const float* __restrict x, Bf16* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(x[i], out + i);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void store_by_instruction(
    const float* x, Bf16* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const auto lanes = static_cast<__mmask16>(n - i >= 16 ? 0xFFFFU : (1U << (n - i)) - 1U);
    const __m256bh y = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, x + i));
    _mm256_mask_storeu_epi16(out + i, lanes, __builtin_bit_cast(__m256i, y));
  }
}
#endif

auto* best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bf16")) {
    return store_by_instruction;
  }
#endif
  return Versions<store_each>::best();
}

}  // namespace

void store_all(const float* x, Bf16* out, int64_t n) {
  static const auto chosen = best();
  chosen(x, out, n);
}

void store_all_portable(const float* x, Bf16* out, int64_t n) {
  Versions<store_each>::portable(x, out, n);
}

}  // namespace tril
