#pragma once
// The learning-rate curve: a pure function of the step and the configuration, so that it never
// depends on how often a run was resumed.

#include <cstdint>

#include "tril/config/optimizer_config.h"

namespace tril {

/// A resolved schedule over the steps 1..total_steps.
struct Schedule {
  ScheduleName name = ScheduleName::kCosine;
  int64_t warmup_steps = 0;  ///< w >= 0
  int64_t total_steps = 1;   ///< N >= 1
  int64_t decay_steps = 1;   ///< >= 1. cosine, linear: the step that reaches min_factor;
                             ///< wsd: how many of the last steps go down
  double min_factor = 0.0;   ///< min_learning_rate / learning_rate, in [0, 1]
};

/// What the configured learning rates are multiplied by at `step` >= 1.
///   step <= w      step / (w + 1): 1/(w+1) at step 1, never 0
///   step  = w + 1  1, in every schedule (also when it is the last step, so a run of one step
///   learns)
/// and from there on:
///   constant  1
///   cosine    half a cosine from 1 at step w + 1 to min_factor at step `decay_steps`
///   linear    a straight line between the same two points
///   wsd       1 up to step N - decay_steps, then a straight line to min_factor at step N; a decay
///             longer than the steps after the warm-up begins at step w + 1
/// After its end point a curve stays at min_factor. An end point at or before step w + 1 leaves no
/// step to go down in: the warm-up is done in full, and min_factor holds from step w + 2.
double schedule_factor(const Schedule& schedule, int64_t step);

}  // namespace tril
