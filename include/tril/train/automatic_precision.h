#pragma once
// What train.precision "auto" means.

#include <torch/torch.h>

#include <string>

#include "tril/config/model_config.h"

namespace tril {

/// From this width on bfloat16 is the faster one on a CPU with instructions for it.
inline constexpr int64_t kBf16Width = 64;

/// The precision of matrix products: bfloat16 on a GPU, and on a CPU that multiplies bfloat16 in
/// hardware (cpu_has_bf16_products) for models of at least kBf16Width; else float32. A pure
/// function of its arguments and the processor, so the same at every start (docs/performance.md has
/// the measurements behind it).
torch::ScalarType automatic_precision(const ModelConfig& model, torch::Device device);

/// The rule as it applies to this machine, in words.
std::string describe_automatic_precision(torch::Device device);

}  // namespace tril
