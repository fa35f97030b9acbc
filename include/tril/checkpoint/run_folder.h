#pragma once
// A run's folder: config, metrics, log, lock, and the checkpoints in it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/file.h"
#include "tril/checkpoint/checkpoint.h"

namespace tril {

/// A complete checkpoint found in a run.
struct CheckpointEntry {
  int64_t step = 0;
  std::filesystem::path folder;
};

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path config_path() const { return root_ / "config.json"; }
  std::filesystem::path metrics_path() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path log_path() const { return root_ / "train.log"; }
  std::filesystem::path tokenizer_path() const { return root_ / "tokenizer.json"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path checkpoint_folder(int64_t step) const;

  /// Complete checkpoints, oldest first. Left-overs of broken saves are not among them.
  std::vector<CheckpointEntry> list() const;
  std::optional<CheckpointEntry> latest() const;

  /// The checkpoint that `choice` names: "latest", "best", or a step number. CheckpointError lists
  /// what there is.
  CheckpointEntry choose(const std::string& choice) const;

  /// Makes the folder; takes the lock for as long as this object lives. A run that another process
  /// is writing is a ConfigError that names the process.
  void create_and_lock();

  /// Removes left-overs of saves that were broken off. Only while the lock is held.
  void remove_leftovers() const;

  /// Removes what a new run would write (checkpoints, metrics, log, config, tokenizer):
  /// --overwrite.
  void remove_run_files() const;

  /// True when the folder holds files of a run.
  bool has_run() const;

  /// Keeps the newest `keep_last` checkpoints (0: all) and `best_step`; removes the others.
  void prune(int64_t keep_last, std::optional<int64_t> best_step) const;

  /// Refuses (ConfigError) to write into a folder that holds checkpoints of steps after `step`:
  /// what goes on from `step` would not be theirs, and nothing good is ever removed to make room.
  void require_none_after(int64_t step) const;

  /// The newest checkpoint whose every file has the size and the checksum of its manifest. Each
  /// newer one that is damaged is told to `on_damaged`, with what is wrong with it.
  std::optional<CheckpointEntry> newest_intact(
      const std::function<void(const CheckpointEntry&, const std::string& fault)>& on_damaged)
      const;

  /// Renames a damaged checkpoint, so that it is none any more and yet nothing is lost:
  /// step_00001000 becomes damaged_step_00001000. Returns the new place. Only while locked.
  std::filesystem::path set_aside(const CheckpointEntry& damaged) const;

 private:
  std::filesystem::path root_;
  std::optional<FileLock> lock_;
};

/// Opens what a command's RUN argument names: a run folder (then `choice` picks inside it) or one
/// checkpoint folder.
Checkpoint open_run_argument(const std::filesystem::path& run, const std::string& choice);

}  // namespace tril
