#pragma once
// Causal attention of one head over plain memory, forward and backward; chosen for the processor at
// run time. The weights of one block of query rows exist at a time, never all T x T.

#include <cstdint>

#include "tril/base/vector_math.h"

namespace tril {

/// Rows of queries that are computed together; they see keys up to their own block's end only.
inline constexpr int64_t kQueryRows = 64;

/// What is the same for all heads of a call, but for the shift.
struct HeadShape {
  int64_t n_positions = 0;     ///< T
  int64_t head_size = 0;       ///< D
  int64_t qkv_stride = 0;      ///< numbers from one position to the next in q, k, v: 3C
  int64_t out_stride = 0;      ///< and in the output: C
  float scale = 1.0F;          ///< of the scores: 1/sqrt(D)
  int64_t key_shift = 0;       ///< 1: every key one position later, the first stays too
  bool qk_norm = false;        ///< divide each query and key by its root mean square
  float norm_epsilon = 0.0F;   ///< added to the mean square
  const float* cos = nullptr;  ///< (T, D/2) rotary table; null: queries and keys are not rotated
  const float* sin = nullptr;  ///< (T, D/2)
  float dropout = 0.0F;        ///< probability of a weight to become 0
};

/// Numbers of working memory that one call needs.
int64_t head_scratch_size(const HeadShape& shape);

/// One head of one window. `seed` chooses its dropout mask.
template <typename T>
struct HeadForward {
  const HeadShape& shape;
  uint32_t seed;
  const T *q, *k, *v;  ///< first position in the packed projection, stride qkv_stride
  T* out;              ///< first position, stride out_stride
  float* log_sum;      ///< (T) logarithm of each row's sum of exponentials
  float* scratch;      ///< head_scratch_size numbers
};

/// Gradients of q, k and v (strides as theirs) from that of the output. The weights are formed
/// again from q, k and `log_sum`.
template <typename T>
struct HeadBackward {
  const HeadShape& shape;
  uint32_t seed;
  const T *q, *k, *v, *out;
  const float* log_sum;
  const T* d_out;
  T *dq, *dk, *dv;
  float* scratch;
};

template <typename T>
struct HeadKernels {
  void (*forward)(const HeadForward<T>&);
  void (*backward)(const HeadBackward<T>&);
};

/// The fastest version that this processor runs.
template <typename T>
HeadKernels<T> head_kernels(const HeadShape& shape);

/// The same code compiled for any processor: the twin in tests.
template <typename T>
HeadKernels<T> head_kernels_portable();

/// What dropout multiplies row `row` of a head's weights by: 0, or 1 / (1 - dropout). (columns)
void attention_dropout_row(
    uint32_t seed, float dropout, int64_t row, int64_t columns, float* factors);

}  // namespace tril
