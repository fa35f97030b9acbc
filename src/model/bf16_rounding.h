#pragma once
// Runs of numbers on their way out of a kernel.

#include <algorithm>
#include <cstdint>

#include "tril/base/vector_math.h"

namespace tril {

/// n floats rounded to nearest, ties to even, by the processor's own instruction where it has one
/// (AVX512_BF16); that instruction makes zeros of numbers below 1.2e-38. NaN stays NaN.
void store_all(const float* x, Bf16* out, int64_t n);

inline void store_all(const float* x, float* out, int64_t n) {
  std::copy_n(x, n, out);
}

/// The same without that instruction: the twin in tests.
void store_all_portable(const float* x, Bf16* out, int64_t n);

}  // namespace tril
