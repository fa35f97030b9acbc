#pragma once
// Loops over plain memory, one per activation; chosen for the processor at run time.

#include <cstdint>

#include "tril/config/model_config.h"

namespace tril {

/// y[i] = f(x[i]) and dy[i] = f'(x[i]) for n floats. Pointers may not overlap.
using ActivationKernel = void (*)(const float* x, float* y, float* dy, int64_t n);

/// The widest version that this processor runs. Within 2e-6 of the exact functions, relative to
/// max(1, |value|).
ActivationKernel activation_kernel(Activation activation);

/// The same code compiled for any x86-64: the twin in tests.
ActivationKernel activation_kernel_portable(Activation activation);

}  // namespace tril
