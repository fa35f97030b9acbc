#include "norm_kernel.h"

#include <algorithm>
#include <cmath>

#include "bf16_rounding.h"
#include "dispatch.h"
#include "tril/base/vector_math.h"

namespace tril {
namespace {

constexpr int64_t kChunk = 256;  // numbers that are converted at once

template <typename T>
TRIL_INLINE void add(const float* __restrict x,
                     const T* __restrict delta,
                     int64_t c,
                     float* __restrict sum) {
  for (int64_t j = 0; j < c; ++j) sum[j] = x[j] + to_float(delta[j]);
}

TRIL_INLINE float mean_of(const float* __restrict s, int64_t c) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < c; ++j) sum += s[j];
  return sum / static_cast<float>(c);
}

/// Of the distances from m.
TRIL_INLINE float mean_square(const float* __restrict s, float m, int64_t c) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < c; ++j) sum += (s[j] - m) * (s[j] - m);
  return sum / static_cast<float>(c);
}

template <typename T>
TRIL_INLINE void forward(const NormForward<T>& n) {
  float y[kChunk];
  for (int64_t i = 0; i < n.rows; ++i) {
    const float* __restrict s = n.x + i * n.c;
    if (n.delta != nullptr) {
      add(s, n.delta + i * n.c, n.c, n.sum + i * n.c);
      s = n.sum + i * n.c;
    }
    const float m = n.is_centered ? mean_of(s, n.c) : 0.0F;
    const float r = 1.0F / std::sqrt(mean_square(s, m, n.c) + n.epsilon);
    n.mean[i] = m;
    n.factor[i] = r;
    for (int64_t first = 0; first < n.c; first += kChunk) {
      const int64_t count = std::min(kChunk, n.c - first);
      const float* __restrict in = s + first, * __restrict w = n.weight + first;
      for (int64_t j = 0; j < count; ++j) y[j] = (in[j] - m) * r * w[j];
      if (n.bias != nullptr) {
        for (int64_t j = 0; j < count; ++j) y[j] += n.bias[first + j];
      }
      store_all(y, n.y + i * n.c + first, count);
    }
  }
}

template <typename T>
TRIL_INLINE void backward(const NormBackward<T>& n) {
  float dy[kChunk];
  const auto c = static_cast<float>(n.c);
  for (int64_t i = 0; i < n.rows; ++i) {
    const int64_t row = i * n.c;
    const float m = n.mean[i], r = n.factor[i];
    float gradients = 0.0F, along = 0.0F;
    for (int64_t first = 0; first < n.c; first += kChunk) {
      const int64_t count = std::min(kChunk, n.c - first);
      const float* __restrict s = n.sum + row + first, * __restrict w = n.weight + first;
      to_floats(n.dy + row + first, dy, count);
#pragma omp simd reduction(+ : gradients, along)
      for (int64_t j = 0; j < count; ++j) {
        gradients += dy[j] * w[j];
        along += dy[j] * w[j] * (s[j] - m);
      }
    }
    const float shift = n.is_centered ? gradients / c : 0.0F;
    const float pull = along * r * r / c;
    for (int64_t first = 0; first < n.c; first += kChunk) {
      const int64_t count = std::min(kChunk, n.c - first), at = row + first;
      const float* __restrict s = n.sum + at, * __restrict w = n.weight + first;
      float* __restrict dx = n.dx + at, * __restrict dweight = n.dweight + first;
      to_floats(n.dy + at, dy, count);
      for (int64_t j = 0; j < count; ++j) {
        dx[j] = r * (dy[j] * w[j] - shift - (s[j] - m) * pull);
        dweight[j] += dy[j] * (s[j] - m) * r;
      }
      if (n.dbias != nullptr) {
        float* __restrict dbias = n.dbias + first;
        for (int64_t j = 0; j < count; ++j) dbias[j] += dy[j];
      }
      if (n.dsum != nullptr) {
        const float* __restrict dsum = n.dsum + at;
        for (int64_t j = 0; j < count; ++j) dx[j] += dsum[j];
      }
      if (n.ddelta != nullptr) store_all(dx, n.ddelta + at, count);
    }
  }
}

}  // namespace

template <typename T>
NormKernels<T> norm_kernels() {
  return {Versions<forward<T>>::best(), Versions<backward<T>>::best()};
}

template <typename T>
NormKernels<T> norm_kernels_portable() {
  return {Versions<forward<T>>::portable, Versions<backward<T>>::portable};
}

template NormKernels<float> norm_kernels();
template NormKernels<Bf16> norm_kernels();
template NormKernels<float> norm_kernels_portable();
template NormKernels<Bf16> norm_kernels_portable();

}  // namespace tril
