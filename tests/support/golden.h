#pragma once
// Golden values: written by scripts/make_golden.py, an independent implementation in plain PyTorch.

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tril/base/json.h"

namespace tril::testing {

inline Json read_golden(const std::string& name) {
  return read_json_file(std::filesystem::path(TRIL_SOURCE_DIR) / "tests/golden" / (name + ".json"),
                        FileRole::kData);
}

/// {"shape": [...], "values": [...]} -> float32 tensor.
inline torch::Tensor golden_tensor(const Json& json) {
  return torch::tensor(json.at("values").get<std::vector<double>>())
      .to(torch::kFloat32)
      .view(json.at("shape").get<std::vector<int64_t>>());
}

/// [[...], [...]] -> (B, T) int64 tensor.
inline torch::Tensor golden_ids(const Json& json) {
  const auto rows = json.get<std::vector<std::vector<int64_t>>>();
  std::vector<torch::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(torch::tensor(row, torch::kInt64));
  return torch::stack(tensors);
}

}  // namespace tril::testing
