#include "norm_kernel.h"

#include <cmath>

#include "dispatch.h"
#include "tril/base/vector_math.h"

namespace tril {
namespace {

TRIL_INLINE void forward(
    const float* x, const float* w, int64_t rows, int64_t c, float epsilon, float* y, float* r) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* __restrict in = x + i * c;
    float* __restrict out = y + i * c;
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < c; ++j) sum += in[j] * in[j];
    const float factor = 1.0F / std::sqrt(sum / static_cast<float>(c) + epsilon);
    for (int64_t j = 0; j < c; ++j) out[j] = in[j] * factor * w[j];
    r[i] = factor;
  }
}

/// With g = dy w and n = x r: dx = r (g - n mean(g n)), dw = sum over rows of dy n.
TRIL_INLINE void backward(const float* x,
                          const float* w,
                          const float* r,
                          const float* dy,
                          int64_t rows,
                          int64_t c,
                          float* dx,
                          float* dw) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* __restrict in = x + i * c;
    const float* __restrict grad = dy + i * c;
    float* __restrict out = dx + i * c;
    float* __restrict dw_row = dw;
    float along = 0.0F;
#pragma omp simd reduction(+ : along)
    for (int64_t j = 0; j < c; ++j) along += grad[j] * w[j] * in[j];
    const float factor = r[i];
    const float pull = along * factor * factor / static_cast<float>(c);
    for (int64_t j = 0; j < c; ++j) {
      out[j] = factor * (grad[j] * w[j] - in[j] * pull);
      dw_row[j] += grad[j] * in[j] * factor;
    }
  }
}

}  // namespace

RmsNormKernels rms_norm_kernels() {
  return {Versions<forward>::best(), Versions<backward>::best()};
}

RmsNormKernels rms_norm_kernels_portable() {
  return {Versions<forward>::portable, Versions<backward>::portable};
}

}  // namespace tril
