#pragma once
// Loops over plain memory, beside matrix products; chosen for the processor at run time.

#include <cstdint>

#include "tril/base/vector_math.h"

namespace tril {

/// sums[j] = sum of x[i * stride + j] over i < rows, for j < columns.
template <typename T>
using ColumnSumsKernel =
    void (*)(const T* x, int64_t stride, int64_t rows, int64_t columns, float* sums);

template <typename T>
ColumnSumsKernel<T> column_sums_kernel();
/// The same code compiled for any processor: the twin in tests.
template <typename T>
ColumnSumsKernel<T> column_sums_kernel_portable();

/// out[j * out_stride + i] = x[i * stride + j] for i < rows, j < columns.
void transpose_block(
    const float* x, int64_t stride, int64_t rows, int64_t columns, float* out, int64_t out_stride);

}  // namespace tril
