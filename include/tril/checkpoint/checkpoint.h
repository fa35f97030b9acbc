#pragma once
// One checkpoint: a folder with everything needed to go on, complete or not there at all.
//
//   step_00001000/  model.safetensors  optimizer.safetensors  state.json  config.json
//                   tokenizer.json     manifest.json (sizes and XXH3 of the others)
//
// It is written under a temporary name, every file is fsynced and read back, then it is renamed.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/checkpoint/checkpoint_state.h"
#include "tril/checkpoint/manifest.h"
#include "tril/optim/parameters.h"

namespace tril {

/// What a save needs; references only.
struct CheckpointContent {
  const std::vector<NamedTensor>& parameters;
  const std::vector<NamedTensor>& optimizer;  ///< empty: weights only, no optimizer.safetensors
  const CheckpointState& state;
  const OrderedJson& config;
  const OrderedJson& tokenizer;
};

/// Writes `folder` in one step; one of that name is replaced. A failure leaves all as it was. Each
/// file is read back and compared before anything is replaced.
void save_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content);

/// A complete checkpoint, opened: the manifest is read and sizes are checked; each file's checksum
/// is checked when it is read. All errors are CheckpointErrors that name the file.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& folder);
  /// True when `folder` holds a manifest (a save that was completed).
  static bool is_complete(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  CheckpointState state() const;
  Json config() const;
  Json tokenizer() const;
  bool has_optimizer() const;
  /// Throws when the checkpoint holds weights only: there is nothing to resume.
  void require_optimizer() const;

  void load_parameters(const std::vector<NamedTensor>& parameters) const;
  /// Throws when the checkpoint holds weights only.
  void load_optimizer(const std::vector<NamedTensor>& optimizer) const;

  const std::vector<ManifestFile>& files() const { return files_; }

  /// Reads every file and compares sizes and checksums; one line per fault, empty when all is well.
  std::vector<std::string> verify() const;

 private:
  const ManifestFile* find(const std::string& name) const;
  /// The path of a listed file whose checksum was found right just now.
  std::filesystem::path checked(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<ManifestFile> files_;
};

}  // namespace tril
