#pragma once
// One checkpoint: a folder with everything needed to go on, complete or not there at all.
//
//   step_00001000/  model.safetensors  optimizer.safetensors  state.json  config.json
//                   tokenizer.json     manifest.json (sizes and XXH3 of the others)
//
// It is written under a temporary name, every file and the folder are fsynced, then it is renamed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/optim/parameters.h"

namespace tril {

/// The small part of a run's state: state.json.
struct CheckpointState {
  int64_t step = 0;            ///< updates done
  int64_t windows_seen = 0;    ///< training windows used: where the data order goes on
  int64_t tokens_seen = 0;     ///< target tokens trained on
  int64_t evaluated_step = 0;  ///< the last step whose evaluation was completed
  std::optional<double> validation_loss = {};  ///< nats per token, at evaluated_step
  std::optional<double> best_validation_loss = {};
  int64_t best_step = 0;                    ///< 0: none yet
  std::string precision = {};               ///< "fp32", "bf16": what `auto` became
  std::string attention = {};               ///< "fused", "reference"
  int64_t threads = 0;                      ///< bit-exact resume holds at this thread count
  std::string train_fingerprint = {};       ///< of the training text or token file
  std::string validation_fingerprint = {};  ///< empty: no validation
};

/// What a save needs; references only.
struct CheckpointContent {
  const std::vector<NamedTensor>& parameters;
  const std::vector<NamedTensor>& optimizer;
  const CheckpointState& state;
  const OrderedJson& config;
  const OrderedJson& tokenizer;
};

/// Writes `folder` in one step; one of that name is replaced. A failure leaves all as it was.
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

  void load_parameters(const std::vector<NamedTensor>& parameters) const;
  /// Throws when the checkpoint holds weights only.
  void load_optimizer(const std::vector<NamedTensor>& optimizer) const;

  struct File {
    std::string name;
    uint64_t bytes = 0;
    std::string xxh3;  ///< 32 hex digits
  };
  const std::vector<File>& files() const { return files_; }

  /// Reads every file and compares sizes and checksums; one line per fault, empty when all is well.
  std::vector<std::string> verify() const;

 private:
  const File* find(const std::string& name) const;
  /// The path of a listed file whose checksum was found right just now.
  std::filesystem::path checked(const std::string& name) const;

  std::filesystem::path folder_;
  std::vector<File> files_;
};

}  // namespace tril
