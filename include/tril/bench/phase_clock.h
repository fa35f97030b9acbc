#pragma once
// Where the time of a step goes: seconds per marked part (model/step_phase.h).

#include <torch/torch.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace tril {

/// While alive, adds up the time of each part of what this thread does. A part's time is its own:
/// what a part inside it takes is counted there, so that all of them add up to the whole. Attention
/// inside a backward pass is counted as attention. Time outside every mark is "other".
/// On a GPU every border of a part waits for the device; so a step takes longer than without.
/// One clock at a time.
class PhaseClock {
 public:
  explicit PhaseClock(torch::Device device);
  ~PhaseClock();
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

  /// Seconds so far by part: "data", "forward", "attention", "loss", "backward", "optimizer",
  /// "other"; all are there.
  std::map<std::string, double> seconds();

 private:
  using Clock = std::chrono::steady_clock;
  struct Callbacks;

  void begin(int part);
  void end();
  void count();

  torch::Device device_;
  at::CallbackHandle handle_ = 0;
  std::vector<int> open_;  ///< parts begun and not ended, the innermost last
  std::vector<double> seconds_;
  Clock::time_point last_;
};

/// The parts in the order of a step; "other" is the last.
const std::vector<std::string>& phase_names();

/// Waits until the device has done everything it was asked to; on the CPU it has.
void wait_for_device(torch::Device device);

}  // namespace tril
