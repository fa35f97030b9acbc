#pragma once
// What a person sees while a model trains: a line that stays alive on a terminal, plain lines
// elsewhere. Everything goes to stderr.

#include <cstdint>
#include <string>

#include "tril/train/metrics.h"

namespace tril {

/// "1 h 02 min", "3 min 20 s", "45 s".
std::string format_duration(double seconds);
/// "12.3 M", "4 096": short for large counts.
std::string format_count(double count);

class Progress {
 public:
  explicit Progress(int64_t total_steps);
  ~Progress();

  void step(const StepMetrics& metrics);
  /// `floor`: nats per token that no model can go below, or a negative number.
  void evaluation(const EvalMetrics& metrics, double floor, bool is_best);
  /// A passing state ("evaluating 40 %"); shown on a terminal only.
  void activity(const std::string& what);
  void sample(int64_t step, const std::string& text);
  /// Removes the live line, so that other messages stand alone.
  void clear();

 private:
  bool live_;  ///< stderr is a terminal
  int64_t total_steps_;
  double smoothed_loss_ = 0;
  double smoothed_rate_ = 0;  ///< tokens per second
  bool line_shown_ = false;
};

}  // namespace tril
