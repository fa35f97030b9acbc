#include "attention_kernel.h"

#include "vector_math.h"

namespace tril {
namespace {

TRIL_INLINE void softmax_rows(float* scores, int64_t t, float scale) {
  for (int64_t i = 0; i < t; ++i) {
    float* __restrict row = scores + i * t;
    float highest = row[0];
#pragma omp simd reduction(max : highest)
    for (int64_t j = 0; j <= i; ++j) highest = row[j] > highest ? row[j] : highest;
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j <= i; ++j) {
      row[j] = exp_not_positive((row[j] - highest) * scale);
      sum += row[j];
    }
    const float factor = 1.0F / sum;
    for (int64_t j = 0; j <= i; ++j) row[j] *= factor;
    for (int64_t j = i + 1; j < t; ++j) row[j] = 0.0F;
  }
}

TRIL_INLINE void softmax_backward_rows(float* d_weights,
                                       const float* weights,
                                       int64_t t,
                                       float scale) {
  for (int64_t i = 0; i < t; ++i) {
    float* __restrict d = d_weights + i * t;
    const float* __restrict p = weights + i * t;
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j <= i; ++j) sum += d[j] * p[j];
    for (int64_t j = 0; j <= i; ++j) d[j] = p[j] * (d[j] - sum) * scale;
    for (int64_t j = i + 1; j < t; ++j) d[j] = 0.0F;
  }
}

void forward_portable(float* scores, int64_t t, float scale) {
  softmax_rows(scores, t, scale);
}
void backward_portable(float* d_weights, const float* weights, int64_t t, float scale) {
  softmax_backward_rows(d_weights, weights, t, scale);
}

#if defined(__x86_64__)
#define TRIL_AVX2 __attribute__((target("avx2,fma")))
#define TRIL_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")))
TRIL_AVX2 void forward_avx2(float* scores, int64_t t, float scale) {
  softmax_rows(scores, t, scale);
}
TRIL_AVX2 void backward_avx2(float* d_weights, const float* weights, int64_t t, float scale) {
  softmax_backward_rows(d_weights, weights, t, scale);
}
TRIL_AVX512 void forward_avx512(float* scores, int64_t t, float scale) {
  softmax_rows(scores, t, scale);
}
TRIL_AVX512 void backward_avx512(float* d_weights, const float* weights, int64_t t, float scale) {
  softmax_backward_rows(d_weights, weights, t, scale);
}
#endif

}  // namespace

CausalSoftmaxKernels causal_softmax_kernels_portable() {
  return {forward_portable, backward_portable};
}

CausalSoftmaxKernels causal_softmax_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return {forward_avx512, backward_avx512};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {forward_avx2, backward_avx2};
  }
#endif
  return causal_softmax_kernels_portable();
}

}  // namespace tril
