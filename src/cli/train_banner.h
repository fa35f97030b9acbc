#pragma once
// What a training run tells before its first step: on the screen, and in metrics.jsonl.

#include "tril/base/json.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/config/run_config.h"
#include "tril/data/training_data.h"
#include "tril/train/memory_estimate.h"
#include "tril/train/trainer.h"

namespace tril::cli {

/// A run about to begin, or to go on; references only.
struct RunStart {
  const RunConfig& config;
  const ResolvedChoices& choices;
  const TrainingData& data;
  const RunFolder& folder;
  const MemoryEstimate& memory;  ///< of one process
  const ProcessGroup* group;     ///< none: a single process
  int64_t total_steps = 0;
  int64_t steps_done = 0;
};

/// Device, threads, precision, model, data, length, expected first loss, when saves happen, memory.
void print_banner(const RunStart& start);

/// The same as the "start" event of metrics.jsonl (docs/metrics.md), with versions and the time.
OrderedJson start_event(const RunStart& start);

}  // namespace tril::cli
