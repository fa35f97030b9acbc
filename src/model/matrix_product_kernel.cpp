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
  constexpr int64_t kLine = 16;  // floats in a cache line
  const int64_t whole_rows = rows / kLine * kLine, whole_columns = columns / kLine * kLine;
  const auto one_by_one = [&](int64_t first_row, int64_t first_column, int64_t end_column) {
    for (int64_t j = first_column; j < end_column; ++j) {
      for (int64_t i = first_row; i < rows; ++i) out[j * out_stride + i] = x[i * stride + j];
    }
  };
#if defined(__x86_64__)
  // Down the rows, a line's width at a time: whole lines are read, and whole ones written, four
  // at a time, which lie far apart and share a place in the first-level cache. The processor does
  // not guess where the next rows are.
  constexpr int64_t kAhead = 64;  // rows
  for (int64_t left = 0; left < whole_columns; left += kLine) {
    for (int64_t top = 0; top < whole_rows; top += kLine) {
      for (int64_t i = top + kAhead; i < std::min(top + kAhead + kLine, rows); ++i) {
        __builtin_prefetch(x + i * stride + left);
      }
      for (int64_t j = left; j < left + kLine; j += 4) {
        for (int64_t i = top; i < top + kLine; i += 4) {
          transpose_4x4(x + i * stride + j, stride, out + j * out_stride + i, out_stride);
        }
      }
    }
  }
  one_by_one(whole_rows, 0, whole_columns);
  one_by_one(0, whole_columns, columns);
#else
  one_by_one(0, 0, columns);
#endif
}

}  // namespace tril
