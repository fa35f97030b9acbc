#pragma once
// Foreign checkpoints made on the spot: weights by the formula of scripts/make_interop_golden.py.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/text_files.h"
#include "tril/base/json.h"
#include "tril/base/safetensors.h"

namespace tril::testing {

/// Number k of a tensor, in [-0.4, 0.4); plus 1 for the gains of norms.
inline std::vector<float> formula_values(const std::string& name,
                                         const std::vector<int64_t>& shape) {
  uint64_t seed = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  size_t n = 1;
  for (const int64_t size : shape) n *= static_cast<size_t>(size);
  const bool is_gain = name.ends_with("weight") && (name.find("ln_") != std::string::npos ||
                                                    name.find("norm") != std::string::npos);
  std::vector<float> values(n);
  for (size_t k = 0; k < n; ++k) {
    uint64_t x = k * 0x9E3779B97F4A7C15ULL + seed;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    x ^= x >> 31;
    const double fraction = static_cast<double>(x >> 40) / 16777216.0 - 0.5;
    values[k] = static_cast<float>(fraction * 0.8 + (is_gain ? 1.0 : 0.0));
  }
  return values;
}

/// A tensor of a file to be written.
struct MadeTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline MadeTensor made(const std::string& name, const std::vector<int64_t>& shape) {
  return {name, shape, formula_values(name, shape)};
}

/// Writes F32 tensors.
inline void write_made(const std::filesystem::path& path,
                       const std::vector<MadeTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {}) {
  std::vector<TensorToWrite> entries;
  for (const MadeTensor& t : tensors) {
    entries.push_back(
        {t.name,
         "F32",
         t.shape,
         {reinterpret_cast<const std::byte*>(t.values.data()), t.values.size() * sizeof(float)}});
  }
  write_safetensors(path, std::move(entries), metadata);
}

/// The tensors of a case of tests/golden/huggingface.json.
inline std::vector<MadeTensor> golden_tensors(const Json& golden) {
  std::vector<MadeTensor> tensors;
  for (const Json& entry : golden.at("tensors")) {
    tensors.push_back(
        made(entry.at(0).get<std::string>(), entry.at(1).get<std::vector<int64_t>>()));
  }
  return tensors;
}

/// A Hugging Face folder of a case; `change` may alter tensors and config before they are written.
using ChangeFolder = std::function<void(std::vector<MadeTensor>&, Json& config)>;
inline void write_huggingface_folder(const std::filesystem::path& folder,
                                     const Json& golden,
                                     const ChangeFolder& change = {}) {
  std::filesystem::create_directories(folder);
  std::vector<MadeTensor> tensors = golden_tensors(golden);
  Json config = golden.at("config");
  if (change) change(tensors, config);
  write_made(folder / "model.safetensors", tensors);
  write_text(folder / "config.json", config.dump());
}

}  // namespace tril::testing
