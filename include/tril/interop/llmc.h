#pragma once
// Models of llm.c: a header of 256 32-bit integers, then all weights in one fixed order.
// Source: the description in karpathy/llm.c (train_gpt2.py, write_model).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tril/config/model_config.h"

namespace tril {

/// One tensor of a model file, named as nanoGPT names it.
struct LlmcTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< real vocabulary only: padding rows are left out
  uint64_t begin = 0;          ///< offset of its first byte in the file
  uint64_t bytes = 0;
};

struct LlmcModel {
  ModelConfig config;
  std::string dtype;  ///< "F32" (version 3) or "BF16" (version 5)
  std::vector<LlmcTensor> tensors;
};

/// True when the bytes begin as such a file does.
bool is_llmc_model(std::span<const std::byte> bytes);

/// Reads the header and works out where each tensor is. CheckpointError that begins with `origin`:
/// wrong magic or version, impossible sizes, a file that is longer or shorter than they say.
LlmcModel read_llmc_model(std::span<const std::byte> bytes, const std::string& origin);

}  // namespace tril
