#pragma once
// The small part of a run's state, and its file state.json. No Torch here: both are read from
// untrusted files, so they run under every sanitizer and are fuzzed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tril/base/json.h"

namespace tril {

/// state.json
struct CheckpointState {
  int64_t step = 0;            ///< updates done
  int64_t windows_seen = 0;    ///< training windows used: where the data order goes on
  int64_t tokens_seen = 0;     ///< target tokens trained on
  int64_t evaluated_step = 0;  ///< the last step whose evaluation was completed
  std::optional<double> validation_loss = {};  ///< nats per token, at evaluated_step
  std::optional<double> best_validation_loss = {};
  int64_t best_step = 0;                    ///< 0: none yet
  std::string precision = {};               ///< "fp32", "bf16", "fp16": what `auto` became
  std::string attention = {};               ///< "fused", "reference"
  int64_t threads = 0;                      ///< bit-exact resume holds at this thread count
  std::string train_fingerprint = {};       ///< of the training text or token file
  std::string validation_fingerprint = {};  ///< empty: no validation
  // What train.on_spike compares a loss with; in the file only where the rule is on.
  std::optional<double> loss_mean = {};      ///< of the recent steps, nats per token
  std::optional<double> loss_variance = {};  ///< of the recent steps
  int64_t loss_count = 0;                    ///< steps that went into the two
  /// Processes that trained together; in the file only when more than one: like the thread count,
  /// it decides the last bits.
  int64_t processes = 0;
  int64_t bad_streak = 0;  ///< how many of the newest steps in a row were bad
  // Of fp16 training; in the file only there.
  std::optional<double> loss_scale = {};  ///< factor on the loss, at least 1
  int64_t loss_scale_steps = 0;           ///< since it changed
};

inline constexpr int kCheckpointFormatVersion = 1;

OrderedJson state_to_json(const CheckpointState& state);

/// Throws CheckpointError with `path`, the key, what was found and what is expected.
CheckpointState state_from_json(const Json& json, const std::filesystem::path& path);

/// Throws CheckpointError unless `json` is an object of the format_version that this tril reads.
void check_format_version(const Json& json, const std::filesystem::path& path);

}  // namespace tril
