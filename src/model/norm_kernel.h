#pragma once
// Root-mean-square normalisation over plain memory; chosen for the processor at run time.

#include <cstdint>

namespace tril {

/// y = x r w of each row, r = 1 / sqrt(mean(x^2) + epsilon).
///   x, y  (rows, c)     w  (c)     r  (rows)
using RmsNormForward = void (*)(
    const float* x, const float* w, int64_t rows, int64_t c, float epsilon, float* y, float* r);

/// dx (rows, c), and dw (c) added to what is there.
using RmsNormBackward = void (*)(const float* x,
                                 const float* w,
                                 const float* r,
                                 const float* dy,
                                 int64_t rows,
                                 int64_t c,
                                 float* dx,
                                 float* dw);

struct RmsNormKernels {
  RmsNormForward forward;
  RmsNormBackward backward;
};

/// The widest version that this processor runs.
RmsNormKernels rms_norm_kernels();

/// The same code compiled for any processor: the twin in tests.
RmsNormKernels rms_norm_kernels_portable();

}  // namespace tril
