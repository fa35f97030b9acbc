#pragma once
// A run as its metrics.jsonl tells it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tril/base/json.h"

namespace tril {

/// Logged steps, one entry each; NaN where a line lacks a number.
struct StepSeries {
  std::vector<double> step, tokens, seconds;  ///< seconds: of all sessions together
  std::vector<double> loss, learning_rate, grad_norm, tokens_per_second, memory_bytes;
};

/// Evaluations, one entry each. `tokens` and `seconds` are those of the last step logged before.
struct EvalSeries {
  std::vector<double> step, tokens, seconds, loss, bits_per_byte;
};

/// The sizes of the parts of the model at some steps: [part][entry].
struct BlockSeries {
  std::vector<std::string> names;
  std::vector<double> step;
  std::vector<std::vector<double>> weight_rms, grad_norm;
};

struct SampleText {
  int64_t step = 0;
  std::string prompt;
  std::string text;
};

struct RunRecord {
  std::string name;  ///< as the user named the run
  Json config;       ///< config.json; null when it cannot be read
  Json start;        ///< the last "start" event; null when there is none
  StepSeries steps;
  EvalSeries evals;
  BlockSeries blocks;
  std::vector<SampleText> samples;
  double floor = -1;  ///< nats per token; negative: unknown
  int64_t n_sessions = 0;
  int64_t n_bad_lines = 0;  ///< lines that could not be understood
};

/// The lines of a metrics.jsonl that are JSON objects with a whole "step", in order; a last line
/// without its end (still being written) is left out. Counts what it leaves out in `n_bad`.
std::vector<Json> parse_metrics(std::string_view text, int64_t* n_bad = nullptr);

/// Reads a run folder. CheckpointError when it is not there or holds no metrics.
RunRecord read_run(const std::filesystem::path& run);

/// The same from the text of a metrics.jsonl.
RunRecord make_record(std::string name, std::string_view metrics);

/// One row per step that was logged or evaluated; every number as metrics.jsonl has it.
/// step,tokens,loss,perplexity,learning_rate,grad_norm,tokens_per_second,elapsed_seconds,
/// memory_bytes,validation_loss,validation_perplexity,bits_per_byte,floor
std::string metrics_csv(std::string_view metrics);

/// Exponential smoothing: each value with weight 1 - `memory`, started without bias. NaN stays
/// NaN and is not remembered.
std::vector<double> smoothed(const std::vector<double>& values, double memory);

/// How much to remember so that about a fiftieth of `n` points is averaged.
double default_memory(size_t n);

}  // namespace tril
