#include "tril/optim/schedule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace tril {

double schedule_factor(const Schedule& schedule, int64_t step) {
  assert(step >= 1 && schedule.warmup_steps >= 0 && schedule.decay_steps >= 1);
  const int64_t peak = schedule.warmup_steps + 1;  // the first step at the full rate
  if (step < peak) return static_cast<double>(step) / static_cast<double>(peak);
  if (schedule.name == ScheduleName::kConstant) return 1.0;

  const bool is_wsd = schedule.name == ScheduleName::kWsd;
  const int64_t begin =  // the last step at 1
      is_wsd ? std::max(peak, schedule.total_steps - schedule.decay_steps) : peak;
  const int64_t end = is_wsd ? schedule.total_steps : schedule.decay_steps;
  if (step <= begin) return 1.0;
  if (step >= end) return schedule.min_factor;

  const double left = static_cast<double>(end - step) / static_cast<double>(end - begin);  // 1 -> 0
  const double height = schedule.name == ScheduleName::kCosine
                            ? 0.5 * (1.0 - std::cos(std::numbers::pi * left))
                            : left;
  return schedule.min_factor + (1.0 - schedule.min_factor) * height;
}

}  // namespace tril
