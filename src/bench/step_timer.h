#pragma once
// The time of training steps, the device's work included.

#include <chrono>

#include "tril/bench/phase_clock.h"
#include "tril/train/trainer.h"

namespace tril {

/// Seconds since its making.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Trains `steps` steps; seconds per step.
inline double seconds_per_step(Trainer& trainer, torch::Device device, int64_t steps) {
  wait_for_device(device);
  const Stopwatch watch;
  for (int64_t i = 0; i < steps; ++i) trainer.train_step();
  wait_for_device(device);
  return watch.seconds() / static_cast<double>(steps);
}

}  // namespace tril
