#pragma once
// metrics.jsonl: one JSON object per line, appended; cut back on resume. docs/metrics.md describes
// every field. TensorBoard's event file has the same scalars.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tril/base/append_file.h"
#include "tril/base/json.h"
#include "tril/plot/tensorboard.h"

namespace tril {

/// One logged step. The loss is the mean over all target tokens of this step, in nats per token.
struct StepMetrics {
  int64_t step = 0;
  int64_t tokens = 0;  ///< target tokens trained on so far
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;                   ///< before clipping
  double tokens_per_second = 0;           ///< since the last line, evaluations and saves excluded
  double elapsed_seconds = 0;             ///< of this process, since its first step
  int64_t memory_bytes = 0;               ///< resident now; on a GPU allocated there; 0: unknown
  std::optional<double> loss_scale = {};  ///< fp16 only
};

/// One completed evaluation.
struct EvalMetrics {
  int64_t step = 0;
  double validation_loss = 0;  ///< mean nats per scored token
  int64_t tokens = 0;          ///< scored
  double bits_per_byte = 0;
  double floor = -1;  ///< nats per token that no honest model goes below; negative: unknown
};

/// Writes RUN/metrics.jsonl. A file that cannot be written is reported once; training
/// goes on, and later lines try again.
class MetricsWriter {
 public:
  /// Keeps the lines up to `last_step` and removes the rest (a broken last line too). The event
  /// file at `tensorboard`, unless empty, likewise.
  MetricsWriter(std::filesystem::path path,
                int64_t last_step,
                const std::filesystem::path& tensorboard = {});

  void write(const StepMetrics& metrics);
  void write(const EvalMetrics& metrics);
  /// Anything else: {"event": `event`, "step": `step`, …`fields`}.
  void write(std::string_view event, int64_t step, const OrderedJson& fields);

 private:
  void write_line(const OrderedJson& json);
  void write_scalars(TensorboardEvent event);

  AppendFile file_;
  std::optional<TensorboardWriter> tensorboard_;
  bool reported_ = false;
};

/// Memory of this process in the machine's RAM, in bytes; 0 where the system does not tell.
int64_t resident_memory_bytes();

}  // namespace tril
