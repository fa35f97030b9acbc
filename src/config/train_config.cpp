#include "tril/config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"

namespace tril {

int64_t TrainConfig::total_steps(int64_t context_length, int64_t windows_per_epoch) const {
  const auto windows = static_cast<double>(windows_per_step(context_length));
  double n_steps = static_cast<double>(kDefaultSteps);
  if (steps > 0) n_steps = static_cast<double>(steps);
  if (tokens > 0) {
    const int64_t step_tokens = windows_per_step(context_length) * context_length;
    n_steps = static_cast<double>((tokens - 1) / step_tokens + 1);
  }
  if (epochs > 0) {
    n_steps = std::ceil(epochs * static_cast<double>(windows_per_epoch) / windows);
    n_steps = std::max(n_steps, 1.0);
  }
  // Window numbers are 64-bit integers that JSON and doubles must hold exactly.
  if (n_steps * windows > kMaxExactInteger) {
    throw ConfigError(
        fmt::format("train: {} steps of {} windows are more than can be counted (2^53). Give fewer "
                    "train.steps, tokens or epochs.",
                    n_steps,
                    windows));
  }
  return static_cast<int64_t>(n_steps);
}

}  // namespace tril
