#pragma once
// Row loops of causal attention over plain memory; chosen for the processor at run time.

#include <cstdint>

namespace tril {

/// Causal softmax of one (T, T) block in place: row i becomes softmax(scale * row[0..i]), and zero
/// beyond the diagonal.
using CausalSoftmaxKernel = void (*)(float* scores, int64_t t, float scale);

/// Its backward, in place on d_weights (T, T): dS = P * (dP - sum(dP * P)) * scale, zero beyond the
/// diagonal. `weights` is P.
using CausalSoftmaxBackwardKernel = void (*)(float* d_weights,
                                             const float* weights,
                                             int64_t t,
                                             float scale);

struct CausalSoftmaxKernels {
  CausalSoftmaxKernel forward;
  CausalSoftmaxBackwardKernel backward;
};

/// The widest version that this processor runs.
CausalSoftmaxKernels causal_softmax_kernels();

/// The same code compiled for any x86-64: the twin in tests.
CausalSoftmaxKernels causal_softmax_kernels_portable();

}  // namespace tril
