#pragma once
// Which steps are bad, and whether a run may go on after one: train.on_spike.

#include <torch/torch.h>

#include <cstdint>

#include "tril/checkpoint/checkpoint_state.h"
#include "tril/config/train_config.h"

namespace tril {

/// Watches the losses of a run. A step is bad when its loss or gradient is not finite or, with
/// train.spike_z_score > 0, when its loss lies more than so many standard deviations above the mean
/// of the recent good steps (an exponential window of 50; the first 50 steps are never spikes).
/// A bad step's update is not applied, and it does not enter the mean.
///   stop    the first bad step ends the run
///   skip    training goes on; 20 bad steps in a row end the run
///   rewind  the trainer goes back to the newest checkpoint and leaves out the windows since then
///           (Chowdhery et al. 2022, section 5.1)
/// Everything stays on the device and in place: observe() waits for nothing, and may be part of a
/// graph that is replayed.
class SpikeGuard {
 public:
  static constexpr int64_t kWindow = 50;      ///< steps
  static constexpr int64_t kMostInARow = 20;  ///< bad steps that `skip` bears
  /// A smaller deviation counts as this one: a loss that hardly moves is not full of spikes.
  static constexpr double kLeastDeviation = 0.01;  ///< nats per token

  SpikeGuard(const TrainConfig& config, torch::Device device);

  /// loss, found_inf: 0-dim; found_inf is 1 when loss or gradient are not finite. `overflow`: 1
  /// when it is only the loss scale's doing (LossScaler): the step is left out, but not bad;
  /// undefined: 0. Returns 1 when the step is bad or left out, else 0: the found_inf that the
  /// optimizer shall see.
  ///   step  0-dim int64, on the device
  torch::Tensor observe(const torch::Tensor& loss,
                        const torch::Tensor& found_inf,
                        const torch::Tensor& step,
                        const torch::Tensor& overflow = {});

  /// The first step after which the run must not just go on; 0: none. Waits for the device.
  int64_t fatal_step() const { return fatal_step_.item<int64_t>(); }
  /// Bad steps since the last call. Waits for the device.
  int64_t take_bad_steps();

  /// To and from the checkpoint. Where the rule is off, nothing is stored.
  void store(CheckpointState& state) const;
  void restore(const CheckpointState& state);

 private:
  OnSpike policy_;
  double z_score_;
  torch::Tensor mean_, variance_;  ///< 0-dim double, of the losses of good steps
  torch::Tensor count_, streak_;   ///< 0-dim int64: good steps; bad steps in a row
  torch::Tensor fatal_step_;       ///< 0-dim int64
  torch::Tensor bad_steps_;        ///< 0-dim int64
};

}  // namespace tril
