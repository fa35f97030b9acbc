#pragma once
// Named tensors to and from safetensors files.

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tril/base/safetensors.h"
#include "tril/optim/parameters.h"

namespace tril {

/// Writes tensors by name (from CPU copies; a tensor on a device is copied first).
WrittenFile save_tensors(const std::filesystem::path& path,
                         const std::vector<NamedTensor>& tensors);

/// Copies a file's tensors into `tensors`, by name. Names, shapes and types are compared first and
/// all differences reported at once (CheckpointError); nothing is copied unless everything fits.
/// F16, BF16 and F64 values are converted; other element types must be equal.
void load_tensors(const SafetensorsFile& file, const std::vector<NamedTensor>& tensors);

/// One line per missing tensor, unknown tensor, different shape or type; empty when all fit.
std::vector<std::string> compare_tensors(const SafetensorsFile& file,
                                         const std::vector<NamedTensor>& tensors);

}  // namespace tril
