#pragma once
// Layer and root-mean-square normalisation over plain memory, with the residual sum before it;
// chosen for the processor at run time. T, float or Bf16: what the matrix products around read and
// write; the residual stream itself is float.

#include <cstdint>

namespace tril {

/// Of each row: s = x + delta, y = (s - m) r w + b; layer norm: m = mean(s), r = 1 / sqrt(var(s) +
/// epsilon); rms norm: m = 0, r = 1 / sqrt(mean(s^2) + epsilon).
template <typename T>
struct NormForward {
  const float* x;       ///< (rows, c)
  const T* delta;       ///< (rows, c); null: s is x
  const float* weight;  ///< (c)
  const float* bias;    ///< (c); null: none
  int64_t rows, c;
  float epsilon;
  bool is_centered;  ///< layer norm
  float* sum;        ///< (rows, c): s; not written where delta is null
  T* y;              ///< (rows, c)
  float* mean;       ///< (rows)
  float* factor;     ///< (rows): r
};

/// With g = dy w and n = (s - m) r: ds = dsum + r (g - mean(g) - n mean(g n)), where rms norm
/// leaves out mean(g).
template <typename T>
struct NormBackward {
  const float* sum;     ///< (rows, c): s
  const float* weight;  ///< (c)
  const float* mean;    ///< (rows)
  const float* factor;  ///< (rows)
  const T* dy;          ///< (rows, c)
  const float* dsum;    ///< (rows, c): gradient of s from elsewhere; null: none
  int64_t rows, c;
  bool is_centered;
  float* dx;       ///< (rows, c): ds
  T* ddelta;       ///< (rows, c): ds too; null: not wanted
  float* dweight;  ///< (c): dy n of all rows is added
  float* dbias;    ///< (c): dy of all rows is added; null: not wanted
};

template <typename T>
struct NormKernels {
  void (*forward)(const NormForward<T>&);
  void (*backward)(const NormBackward<T>&);
};

/// The widest version that this processor runs.
template <typename T>
NormKernels<T> norm_kernels();

/// The same code compiled for any processor: the twin in tests.
template <typename T>
NormKernels<T> norm_kernels_portable();

}  // namespace tril
