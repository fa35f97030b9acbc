#pragma once
// Softmax and cross-entropy of rows of logits over plain memory; chosen for the processor at run
// time.

#include <cstdint>

#include "tril/base/vector_math.h"

namespace tril {

/// For each row: losses[i] = -log softmax(logits)[target], over the first `vocab_size` columns;
/// and, in the memory of the logits, their gradient (softmax - one_hot(target)) * scale, zero in
/// the columns of the padding.
///   logits  (rows, columns)     targets  (rows), in [0, vocab_size)     losses  (rows)
template <typename T>
using CrossEntropyKernel = void (*)(T* logits,
                                    const int64_t* targets,
                                    int64_t rows,
                                    int64_t columns,
                                    int64_t vocab_size,
                                    float scale,
                                    float* losses);

/// The widest version that this processor runs.
template <typename T>
CrossEntropyKernel<T> cross_entropy_kernel();

/// The same code compiled for any processor: the twin in tests.
template <typename T>
CrossEntropyKernel<T> cross_entropy_kernel_portable();

}  // namespace tril
