#pragma once
// `tril bench` on several processes: what a step costs, and what of it is communication.

#include <cstdint>
#include <functional>
#include <optional>

#include "tril/bench/bench.h"
#include "tril/distributed/process_group.h"

namespace tril {

struct ParallelBenchResult {
  int64_t processes = 0;
  int64_t parameters = 0;
  int64_t tokens_per_step = 0;  ///< of all processes
  int64_t rounds = 0;
  Measured step_seconds;
  Measured tokens_per_second;
  /// Seconds per step that the first process waited for the others and for the network.
  double exposed_seconds = 0;
  /// Seconds per step that its exchanges took, most of them beside the backward pass; 0 on a GPU.
  double exchange_seconds = 0;
  int64_t bytes_per_step = 0;  ///< sent by one process, for gradients and weights
  int64_t weight_bytes = 0;    ///< the most in one process at once
  int64_t moment_bytes = 0;    ///< of one process
  int64_t peak_memory_bytes = 0;
};

/// Times the trainer's own step; all processes of the group call it with equal arguments. Nothing
/// when one of them was told to stop.
std::optional<ParallelBenchResult> run_parallel_bench(const RunConfig& config,
                                                      const ResolvedChoices& choices,
                                                      const TrainingData& data,
                                                      double seconds,
                                                      const std::function<bool()>& should_stop,
                                                      ProcessGroup& group);

}  // namespace tril
