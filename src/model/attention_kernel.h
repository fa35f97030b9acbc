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
///   q, k, v  first position of the head in the packed projection, stride qkv_stride
///   out      first position of the head in the output, stride out_stride
///   log_sum  (T) logarithm of each row's sum of exponentials
template <typename T>
using HeadForward = void (*)(const HeadShape& shape,
                             uint32_t seed,
                             const T* q,
                             const T* k,
                             const T* v,
                             T* out,
                             float* log_sum,
                             float* scratch);

/// Gradients of q, k and v (strides as theirs) from that of the output. The weights are formed
/// again from q, k and `log_sum`.
template <typename T>
using HeadBackward = void (*)(const HeadShape& shape,
                              uint32_t seed,
                              const T* q,
                              const T* k,
                              const T* v,
                              const T* out,
                              const float* log_sum,
                              const T* d_out,
                              T* dq,
                              T* dk,
                              T* dv,
                              float* scratch);

template <typename T>
struct HeadKernels {
  HeadForward<T> forward;
  HeadBackward<T> backward;
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
