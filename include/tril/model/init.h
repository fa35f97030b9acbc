#pragma once
// Initial weights.

#include <cstdint>

#include "tril/model/gpt.h"

namespace tril {

/// Sets every parameter: normal(0, 0.02); projections that write to the residual stream
/// (attn.proj, ffn.down) normal(0, 0.02 / sqrt(2L)); biases 0; norm gains 1.
/// Source: Radford et al. 2019, section 2.3. Each tensor's numbers depend only on (seed, its name),
/// so they are the same on every device, and changing one tensor's shape leaves the others alone.
void initialize(GPT& model, uint64_t seed);

}  // namespace tril
