#pragma once
// Loops over plain memory, one per activation; chosen for the processor at run time.

#include <cstdint>

#include "tril/base/vector_math.h"
#include "tril/config/model_config.h"

namespace tril {

/// y[i] = f(x[i]) and, unless dy is null, dy[i] = f'(x[i]) for n numbers. Pointers may not overlap.
template <typename T>
using ActivationKernel = void (*)(const T* x, T* y, T* dy, int64_t n);

/// The widest version that this processor runs. In float within 2e-6 of the exact functions,
/// relative to max(1, |value|); in bfloat16 that, rounded.
template <typename T>
ActivationKernel<T> activation_kernel(Activation activation);

/// The same code compiled for any x86-64: the twin in tests.
template <typename T>
ActivationKernel<T> activation_kernel_portable(Activation activation);

}  // namespace tril
