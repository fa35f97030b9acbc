#pragma once
// What the attention kernels share: rows of q, k and v on their way in, gradients on their way out,
// and the dropout mask. Everything is inlined into a kernel that is compiled per instruction set.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attention_kernel.h"
#include "tril/base/vector_math.h"

namespace tril {

template <typename T>
TRIL_INLINE void load_rows(const T* from, int64_t stride, int64_t rows, int64_t d, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict in = from + i * stride;
    float* __restrict out = to + i * d;
    for (int64_t j = 0; j < d; ++j) out[j] = to_float(in[j]);
  }
}

TRIL_INLINE float inverse_rms(const float* x, int64_t d, float epsilon) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < d; ++j) sum += x[j] * x[j];
  return 1.0F / std::sqrt(sum / static_cast<float>(d) + epsilon);
}

/// Turns each pair (x[j], x[j + D/2]) by the angle of its position; `direction` -1 turns back.
TRIL_INLINE void rotate_row(float* __restrict x,
                            const float* __restrict cos,
                            const float* __restrict sin,
                            int64_t half,
                            float direction) {
  for (int64_t j = 0; j < half; ++j) {
    const float a = x[j], b = x[j + half], s = sin[j] * direction;
    x[j] = a * cos[j] - b * s;
    x[j + half] = b * cos[j] + a * s;
  }
}

/// Queries or keys, normalised and rotated. (T, D) packed.
template <typename T>
TRIL_INLINE void load_queries_or_keys(const HeadShape& shape, const T* from, float* to) {
  const int64_t d = shape.head_size;
  load_rows(from, shape.qkv_stride, shape.n_positions, d, to);
  for (int64_t i = 0; i < shape.n_positions; ++i) {
    float* __restrict row = to + i * d;
    if (shape.qk_norm) {
      const float factor = inverse_rms(row, d, shape.norm_epsilon);
      for (int64_t j = 0; j < d; ++j) row[j] *= factor;
    }
    if (shape.cos != nullptr) {
      rotate_row(row, shape.cos + i * (d / 2), shape.sin + i * (d / 2), d / 2, 1.0F);
    }
  }
}

/// Keys as the scores see them: the first T rows of `to`, (T + 1, D).
template <typename T>
TRIL_INLINE void load_keys(const HeadShape& shape, const T* k, float* to) {
  const int64_t d = shape.head_size;
  load_queries_or_keys(shape, k, to + shape.key_shift * d);
  if (shape.key_shift == 1) std::copy(to + d, to + 2 * d, to);
}

/// The other way: gradients of those T rows become gradients of the T keys, from row key_shift on.
TRIL_INLINE float* unshift_key_gradients(const HeadShape& shape, float* dks, int64_t stride) {
  if (shape.key_shift == 0) return dks;
  std::fill(dks + shape.n_positions * stride, dks + (shape.n_positions + 1) * stride, 0.0F);
  for (int64_t j = 0; j < shape.head_size; ++j) dks[stride + j] += dks[j];
  return dks + stride;
}

/// The gradient of one query or key, `grad` (D), back through rotation and norm; x is what was
/// loaded. Norm: y = x r, dx = r (dy - y mean(dy y)).
template <typename T>
TRIL_INLINE void store_query_or_key_gradient(
    const HeadShape& shape, int64_t position, const T* x, float* __restrict grad, T* out) {
  const int64_t d = shape.head_size, half = d / 2;
  if (shape.cos != nullptr) {
    rotate_row(grad, shape.cos + position * half, shape.sin + position * half, half, -1.0F);
  }
  if (shape.qk_norm) {
    float squares = 0.0F, products = 0.0F;
#pragma omp simd reduction(+ : squares, products)
    for (int64_t j = 0; j < d; ++j) {
      const float value = to_float(x[j]);
      squares += value * value;
      products += value * grad[j];
    }
    const auto n = static_cast<float>(d);
    const float r = 1.0F / std::sqrt(squares / n + shape.norm_epsilon);
    const float along = products * r * r / n;
    for (int64_t j = 0; j < d; ++j) grad[j] = r * (grad[j] - to_float(x[j]) * along);
  }
  for (int64_t j = 0; j < d; ++j) store(grad[j], out + j);
}

TRIL_INLINE uint32_t row_key(uint32_t seed, int64_t row) {
  return mix_bits(seed ^ mix_bits(static_cast<uint32_t>(row) + 0x9E3779B9U));
}

/// 0 or 1 / (1 - p) for one weight.
TRIL_INLINE float dropout_factor(uint32_t key, int64_t column, uint32_t threshold, float keep) {
  return mix_bits(key ^ (static_cast<uint32_t>(column) * 0x9E3779B9U)) < threshold ? 0.0F : keep;
}

TRIL_INLINE uint32_t dropout_threshold(float p) {
  return static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0);
}

}  // namespace tril
