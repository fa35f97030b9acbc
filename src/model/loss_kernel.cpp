#include "loss_kernel.h"

#include <cmath>

#include "dispatch.h"

namespace tril {
namespace {

template <typename T>
TRIL_INLINE void cross_entropy_rows(T* logits,
                                    const int64_t* targets,
                                    int64_t rows,
                                    int64_t columns,
                                    int64_t vocab_size,
                                    float scale,
                                    float* losses) {
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict row = logits + i * columns;
    const float at_target = to_float(row[targets[i]]);
    float highest = to_float(row[0]);
#pragma omp simd reduction(max : highest)
    for (int64_t j = 0; j < vocab_size; ++j) {
      const float x = to_float(row[j]);
      highest = x > highest ? x : highest;
    }
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < vocab_size; ++j) sum += exp_not_positive(to_float(row[j]) - highest);
    losses[i] = std::log(sum) + highest - at_target;
    const float factor = scale / sum;
    for (int64_t j = 0; j < vocab_size; ++j) {
      store(exp_not_positive(to_float(row[j]) - highest) * factor, row + j);
    }
    store((std::exp(at_target - highest) / sum - 1.0F) * scale, row + targets[i]);
    for (int64_t j = vocab_size; j < columns; ++j) store(0.0F, row + j);
  }
}

}  // namespace

template <typename T>
CrossEntropyKernel<T> cross_entropy_kernel() {
  return Versions<cross_entropy_rows<T>>::best();
}

template <typename T>
CrossEntropyKernel<T> cross_entropy_kernel_portable() {
  return Versions<cross_entropy_rows<T>>::portable;
}

template CrossEntropyKernel<float> cross_entropy_kernel();
template CrossEntropyKernel<Bf16> cross_entropy_kernel();
template CrossEntropyKernel<float> cross_entropy_kernel_portable();
template CrossEntropyKernel<Bf16> cross_entropy_kernel_portable();

}  // namespace tril
