#include "matrix_product_kernel.h"

#include <algorithm>

#include "dispatch.h"
#include "tril/base/vector_intrinsics.h"

namespace tril {
namespace {

/// Rows that are added up by themselves first: long sums in float32 lose less that way.
constexpr int64_t kRowsPerPart = 256;
constexpr int64_t kColumns = 512;  // sums that stay in the first-level cache

template <typename T>
TRIL_INLINE void column_sums(
    const T* x, int64_t stride, int64_t rows, int64_t columns, float* sums) {
  float part[kColumns];
  for (int64_t first = 0; first < columns; first += kColumns) {
    const int64_t n = std::min(kColumns, columns - first);
    float* __restrict total = sums + first;
    std::fill_n(total, n, 0.0F);
    for (int64_t begin = 0; begin < rows; begin += kRowsPerPart) {
      const int64_t end = std::min(rows, begin + kRowsPerPart);
      std::fill_n(part, n, 0.0F);
      for (int64_t i = begin; i < end; ++i) {
        const T* __restrict row = x + i * stride + first;
        for (int64_t j = 0; j < n; ++j) part[j] += to_float(row[j]);
      }
      for (int64_t j = 0; j < n; ++j) total[j] += part[j];
    }
  }
}

#if defined(__x86_64__)
void transpose_4x4(const float* x, int64_t stride, float* out, int64_t out_stride) {
  __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + stride);
  __m128 c = _mm_loadu_ps(x + 2 * stride), d = _mm_loadu_ps(x + 3 * stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(out, a);
  _mm_storeu_ps(out + out_stride, b);
  _mm_storeu_ps(out + 2 * out_stride, c);
  _mm_storeu_ps(out + 3 * out_stride, d);
}
#endif

}  // namespace

template <typename T>
ColumnSumsKernel<T> column_sums_kernel() {
  return Versions<column_sums<T>>::best();
}
template <typename T>
ColumnSumsKernel<T> column_sums_kernel_portable() {
  return Versions<column_sums<T>>::portable;
}

template ColumnSumsKernel<float> column_sums_kernel();
template ColumnSumsKernel<Bf16> column_sums_kernel();
template ColumnSumsKernel<float> column_sums_kernel_portable();
template ColumnSumsKernel<Bf16> column_sums_kernel_portable();

void transpose_block(
    const float* x, int64_t stride, int64_t rows, int64_t columns, float* out, int64_t out_stride) {
  constexpr int64_t kStrip = 16;  // rows, which become whole cache lines of `out`
  for (int64_t first = 0; first < rows; first += kStrip) {
    const int64_t end = std::min(rows, first + kStrip);
    int64_t j = 0;
#if defined(__x86_64__)
    if (end - first == kStrip) {
      for (; j + 4 <= columns; j += 4) {
        for (int64_t i = first; i < end; i += 4) {
          transpose_4x4(x + i * stride + j, stride, out + j * out_stride + i, out_stride);
        }
      }
    }
#endif
    for (; j < columns; ++j) {
      for (int64_t i = first; i < end; ++i) out[j * out_stride + i] = x[i * stride + j];
    }
  }
}

}  // namespace tril
