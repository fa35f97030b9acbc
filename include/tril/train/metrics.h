#pragma once
// metrics.jsonl: one JSON object per line, appended; cut back on resume.

#include <cstdint>
#include <filesystem>
#include <string>

#include "tril/base/append_file.h"
#include "tril/base/json.h"

namespace tril {

/// One logged step. The loss is the mean over all target tokens of this step, in nats per token.
struct StepMetrics {
  int64_t step = 0;
  int64_t tokens = 0;  ///< target tokens trained on so far
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;          ///< before clipping
  double tokens_per_second = 0;  ///< since the last line, evaluations and saves excluded
  double elapsed_seconds = 0;    ///< of this process, since its first step
};

/// One completed evaluation.
struct EvalMetrics {
  int64_t step = 0;
  double validation_loss = 0;  ///< mean nats per scored token
  int64_t tokens = 0;          ///< scored
  double bits_per_byte = 0;
};

/// Writes RUN/metrics.jsonl. A file that cannot be written is reported once; training
/// goes on, and later lines try again.
class MetricsWriter {
 public:
  /// Keeps the lines up to `last_step` and removes the rest (a broken last line too).
  MetricsWriter(std::filesystem::path path, int64_t last_step);

  void write(const StepMetrics& metrics);
  void write(const EvalMetrics& metrics);

 private:
  void write_line(const OrderedJson& json);

  AppendFile file_;
  bool reported_ = false;
};

}  // namespace tril
