#pragma once
// The factor on the loss that keeps small gradients from vanishing in fp16.

#include <torch/torch.h>

#include <cstdint>

#include "tril/checkpoint/checkpoint_state.h"

namespace tril {

/// Dynamic loss scaling (Micikevicius et al. 2018, section 3.2), by the rule of
/// torch.amp.GradScaler: the scale begins at 65 536, halves after a step whose gradient overflowed,
/// and doubles after 2 000 steps in a row without. For other precisions than fp16 it is off, and
/// costs nothing. Everything stays on the device.
class LossScaler {
 public:
  static constexpr double kFirstScale = 65536;
  static constexpr int64_t kGrowthInterval = 2000;  ///< steps
  /// At this scale an overflow is the model's own: the gradient itself is too large.
  static constexpr double kLeastScale = 1;

  LossScaler(torch::ScalarType precision, torch::Device device);

  bool is_on() const { return scale_.defined(); }

  /// What the backward pass of a loss begins with, and so the factor on all gradients: 0-dim
  /// float. Undefined when off: backward() begins with one.
  const torch::Tensor& scale() const { return scale_; }

  /// After a step's gradients: adapts the scale. Returns 1 where they overflowed only because of
  /// the scale (the step is left out, and nothing is wrong), else 0; undefined when off.
  ///   loss       0-dim
  ///   found_inf  0-dim, 1 where the scaled gradients are not finite
  torch::Tensor update(const torch::Tensor& loss, const torch::Tensor& found_inf);

  /// Steps left out since the last call. Waits for the device; 0 when off.
  int64_t take_overflows();
  /// Waits for the device; 1 when off.
  double value() const;

  /// To and from the checkpoint. When off, nothing is stored. CheckpointError for a scale that is
  /// none.
  void store(CheckpointState& state) const;
  void restore(const CheckpointState& state);

 private:
  torch::Tensor scale_;       ///< 0-dim float
  torch::Tensor good_steps_;  ///< 0-dim int, in a row since the scale changed
  torch::Tensor overflows_;   ///< 0-dim int64
};

}  // namespace tril
