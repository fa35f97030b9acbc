#pragma once
// The same attention with products of our own, for processors with 512-bit vectors: a head's
// matrices are small, and what a library call costs is most of their time.

#include <cstdint>

#include "attention_kernel.h"

namespace tril {

/// Can this processor run it on heads of this shape? It takes AVX512_BF16, whose instructions
/// multiply pairs of bfloat16 numbers: for Bf16 the weights are rounded, and D must be even.
template <typename T>
bool has_tiled_kernels(const HeadShape& shape);

/// For HeadForward and HeadBackward.
template <typename T>
HeadKernels<T> tiled_head_kernels();

/// Floats of working memory that one call needs.
int64_t tiled_scratch_size(const HeadShape& shape);

}  // namespace tril
