#pragma once
// `tril bench`: how fast training and generation are here, against what the machine can do.

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tril/bench/gemm.h"
#include "tril/config/run_config.h"
#include "tril/data/training_data.h"
#include "tril/train/trainer.h"

namespace tril {

struct BenchOptions {
  double seconds = 20;       ///< for training and matrix products; at least three rounds are taken
  int64_t new_tokens = 200;  ///< length of a generated sample; 0: no generation
  /// Chrome trace of three steps, for a browser's trace viewer; empty: none.
  std::filesystem::path profile = {};
  std::function<bool()> should_stop = {};  ///< polled between pieces of some tenths of a second
};

/// A figure measured several times. The machine's speed drifts: the range is part of the result.
struct Measured {
  double median = 0, low = 0, high = 0;
};
Measured measured(std::vector<double> values);

/// One shape of matrix product, in the precision of the step.
struct ProductResult {
  LinearProducts shape;
  Measured flops_per_second;
};

struct BenchResult {
  int64_t parameters = 0;
  int64_t tokens_per_step = 0;
  double flops_per_token = 0;  ///< model_config.h
  int64_t rounds = 0;

  Measured tokens_per_second;
  Measured step_seconds;
  Measured flops_per_second;  ///< of the step: flops_per_token * tokens per second
  /// The step's own matrix products alone, by precision ("fp32", "bf16"): FLOPs of all of them over
  /// the time that all of them take.
  std::map<std::string, Measured> gemm_flops_per_second;
  Measured share_of_gemm;  ///< of the two above, round by round, in the precision of the step
  std::vector<ProductResult> products;

  std::map<std::string, double> phase_seconds;  ///< per step (phase_names()), medians
  double observed_step_seconds = 0;             ///< of the steps that were watched

  int64_t peak_memory_bytes = 0;  ///< of the process (CPU), of the device's tensors (GPU)
  double estimated_memory_bytes = 0;

  Measured generated_tokens_per_second;  ///< one sample at a time, with the key/value cache
};

/// Trains the config's model with the trainer's own step, takes turns with the bare matrix
/// products, and generates. Writes nothing but the trace. Nothing: should_stop said so.
std::optional<BenchResult> run_bench(const RunConfig& config,
                                     const ResolvedChoices& choices,
                                     const TrainingData& data,
                                     const BenchOptions& options);

/// Random ids of a vocabulary, in a token file at `path`: data for a shape that has no text.
TrainingData synthetic_data(const std::filesystem::path& path,
                            int64_t vocab_size,
                            int64_t context_length,
                            int64_t windows_per_step);

}  // namespace tril
