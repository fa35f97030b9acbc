#pragma once
// How much of a model from elsewhere is read at all: a config of a few bytes must not make us build
// millions of modules.

#include <cstdint>

namespace tril {

/// Heads of all blocks together.
inline constexpr int64_t kMaxHeadsInAll = 1 << 18;

}  // namespace tril
