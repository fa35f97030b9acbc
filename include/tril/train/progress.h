#pragma once
// What a person sees while a model trains: a line that stays alive on a terminal, with a chart of
// the loss above it once there is an evaluation; plain lines elsewhere. Everything goes to stderr.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tril/train/metrics.h"

namespace tril {

/// "1 h 02 min", "3 min 20 s", "45 s".
std::string format_duration(double seconds);
/// "12.3 M", "4 096": short for large counts.
std::string format_count(double count);
/// "212 MB", "1.35 GB".
std::string format_bytes(double bytes);

/// One piece of the status line. Where the terminal is too narrow for all, those of the highest
/// `rank` go first; those of rank 0 stay.
struct StatusField {
  std::string text;
  int rank = 0;
};

/// The fields that fit into `columns`, two spaces apart; cut off if even the first do not fit.
/// `columns` 0: all of them.
std::string join_status(const std::vector<StatusField>& fields, size_t columns);

struct ProgressOptions {
  int64_t total_steps = 0;
  double flops_per_token = 0;  ///< of training
  double peak_flops = 0;       ///< per second, of matrix products on this device; 0: unknown
};

class Progress {
 public:
  explicit Progress(ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  /// `floor`: nats per token that no model can go below, or a negative number.
  void evaluation(const EvalMetrics& metrics, double floor, bool is_best);
  /// A passing state ("evaluating 40 %"); shown on a terminal only.
  void activity(const std::string& what);
  void sample(int64_t step, const std::string& text);
  /// Removes the live lines, so that other messages stand alone.
  void clear();
  /// The end of a session: what it did and how long it took; on a terminal the chart, to stay.
  void summary();

 private:
  void show(const std::string& status);
  void update_chart();

  ProgressOptions options_;
  bool live_;  ///< stderr is a terminal
  size_t lines_shown_ = 0;
  std::chrono::steady_clock::time_point last_shown_;
  std::vector<std::string> chart_;  ///< since the last evaluation

  // For the chart and the summary.
  std::vector<double> steps_, smoothed_, eval_steps_, eval_losses_;
  StepMetrics first_, last_;
  double smoothed_loss_ = 0;
  double smoothed_rate_ = 0;  ///< tokens per second
  double tokens_per_step_ = 0;
  int64_t most_memory_bytes_ = 0;
};

}  // namespace tril
