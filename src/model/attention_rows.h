#pragma once
// What the attention kernels share: rows of q, k and v on their way in, gradients on their way out,
// and the dropout mask. Everything is inlined into a kernel that is compiled per instruction set.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attention_kernel.h"
#include "tril/base/vector_math.h"

namespace tril {

/// Asks for a row ahead of its use: rows of one head lie far apart, so the processor does not guess
/// where the next one is.
template <typename T>
TRIL_INLINE void prefetch_row(const T* row, int64_t d) {
  constexpr int64_t kLine = 64 / sizeof(T);  // numbers in a cache line
  for (int64_t j = 0; j < d; j += kLine) __builtin_prefetch(row + j);
}

template <typename T>
TRIL_INLINE void load_rows(const T* from, int64_t stride, int64_t rows, int64_t d, float* to) {
  constexpr int64_t kAhead = 16;  // rows; their cache lines are on their way at once
  for (int64_t i = 0; i < rows; ++i) {
    if (i + kAhead < rows) prefetch_row(from + (i + kAhead) * stride, d);
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

/// The softmax of one row, its division left for later.
struct RowSum {
  float log_sum;  ///< logarithm of the sum of exponentials
  float inverse;  ///< 1 / sum, with the highest score as 0
};

/// Turns row `i` of the products q k^T into weights times their sum, after dropout; zeros for the
/// future, up to `columns`.
TRIL_INLINE RowSum softmax_row(
    const HeadShape& shape, uint32_t seed, int64_t i, int64_t columns, float* __restrict row) {
  const int64_t seen = i + 1;
  float highest = row[0];
#pragma omp simd reduction(max : highest)
  for (int64_t j = 0; j < seen; ++j) highest = row[j] > highest ? row[j] : highest;
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < seen; ++j) {
    row[j] = exp_not_positive((row[j] - highest) * shape.scale);
    sum += row[j];
  }
  if (shape.dropout > 0.0F) {
    const uint32_t key = row_key(seed, i), threshold = dropout_threshold(shape.dropout);
    const float keep = 1.0F / (1.0F - shape.dropout);
    for (int64_t j = 0; j < seen; ++j) row[j] *= dropout_factor(key, j, threshold, keep);
  }
  for (int64_t j = seen; j < columns; ++j) row[j] = 0.0F;
  return {highest * shape.scale + std::log(sum), 1.0F / sum};
}

/// Turns row `i` of q k^T into weights after dropout, and the gradient of those into that of q k^T.
///   along  sum(dP * P) of the row, which is sum(dy * y)
TRIL_INLINE void score_gradient_row(const HeadShape& shape,
                                    uint32_t seed,
                                    int64_t i,
                                    int64_t columns,
                                    float log_sum,
                                    float along,
                                    float* __restrict weights,
                                    float* __restrict grad) {
  const int64_t seen = i + 1;
  if (shape.dropout == 0.0F) {
    for (int64_t j = 0; j < seen; ++j) {
      const float w = exp_not_positive(weights[j] * shape.scale - log_sum);
      weights[j] = w;
      grad[j] = w * (grad[j] - along) * shape.scale;
    }
  } else {
    const uint32_t key = row_key(seed, i), threshold = dropout_threshold(shape.dropout);
    const float keep = 1.0F / (1.0F - shape.dropout);
    for (int64_t j = 0; j < seen; ++j) {
      const float w = exp_not_positive(weights[j] * shape.scale - log_sum);
      const float factor = dropout_factor(key, j, threshold, keep);
      weights[j] = w * factor;
      grad[j] = w * (grad[j] * factor - along) * shape.scale;
    }
  }
  for (int64_t j = seen; j < columns; ++j) weights[j] = grad[j] = 0.0F;
}

/// sum(dy * y) of one row.
template <typename T>
TRIL_INLINE float product_of_rows(const float* __restrict dy, const T* __restrict y, int64_t d) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < d; ++j) sum += dy[j] * to_float(y[j]);
  return sum;
}

}  // namespace tril
