#pragma once
// manifest.json: which files a checkpoint has, and their sizes and checksums. No Torch here: it is
// read from untrusted folders, so it runs under every sanitizer and is fuzzed.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tril/base/json.h"

namespace tril {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kModelName = "model.safetensors";
inline constexpr const char* kOptimizerName = "optimizer.safetensors";
inline constexpr const char* kStateName = "state.json";
inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kTokenizerName = "tokenizer.json";
inline constexpr std::array kCheckpointFiles = {
    kModelName, kOptimizerName, kStateName, kConfigName, kTokenizerName};

/// A file that the manifest lists. `name` is one of kCheckpointFiles.
struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  std::string xxh3;  ///< 32 hex digits
};

OrderedJson manifest_to_json(int64_t step, const std::vector<ManifestFile>& files);

/// The files that a manifest lists, in the order of their names. Only names that tril writes are
/// taken, so that a stranger's manifest cannot point outside its folder. Throws CheckpointError
/// with `path` and the entry at fault.
std::vector<ManifestFile> manifest_from_json(const Json& json, const std::filesystem::path& path);

}  // namespace tril
