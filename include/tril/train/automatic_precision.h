#pragma once
// What train.precision "auto" means, and what a device cannot do.

#include <torch/torch.h>

#include <string>

#include "tril/config/model_config.h"

namespace tril {

/// From this width on bfloat16 is the faster one on a CPU with instructions for it.
inline constexpr int64_t kBf16Width = 64;

/// Does the device multiply bfloat16 in hardware? CPUs: cpu_has_bf16_products. GPUs: from compute
/// capability 8.0 on (Ampere), as LibTorch tells it.
bool multiplies_bf16(torch::Device device);

/// The precision of matrix products. On a GPU bfloat16, or fp16 where it has none; on a CPU that
/// has it bfloat16 for models of at least kBf16Width, else float32. A pure function of its
/// arguments, so the same at every start (docs/performance.md has the measurements behind it).
torch::ScalarType automatic_precision(const ModelConfig& model,
                                      torch::Device device,
                                      bool has_bf16);

/// ConfigError, with what to use instead, for bfloat16 on a GPU without it: LibTorch would emulate
/// it, slowly. A CPU without computes it well enough.
void require_precision(torch::ScalarType precision, torch::Device device, bool has_bf16);

/// The rule as it applies to this machine, in words.
std::string describe_automatic_precision(torch::Device device);

}  // namespace tril
