#include "tril/train/spike_policy.h"

namespace tril {

SpikeGuard::SpikeGuard(const TrainConfig& config, torch::Device device)
    : policy_(config.on_spike), z_score_(config.spike_z_score) {
  const auto options = torch::TensorOptions().device(device);
  mean_ = torch::zeros({}, options.dtype(torch::kFloat64));
  variance_ = torch::zeros({}, options.dtype(torch::kFloat64));
  count_ = torch::zeros({}, options.dtype(torch::kInt64));
  streak_ = torch::zeros({}, options.dtype(torch::kInt64));
  fatal_step_ = torch::zeros({}, options.dtype(torch::kInt64));
  bad_steps_ = torch::zeros({}, options.dtype(torch::kInt64));
}

torch::Tensor SpikeGuard::observe(const torch::Tensor& loss,
                                  const torch::Tensor& found_inf,
                                  const torch::Tensor& step,
                                  const torch::Tensor& overflow) {
  const torch::Tensor wrong = overflow.defined() ? found_inf - overflow : found_inf;
  torch::Tensor is_bad = wrong.gt(0).logical_or(loss.isfinite().logical_not());
  if (z_score_ > 0) {
    const torch::Tensor delta = loss.to(torch::kFloat64) - mean_;
    const torch::Tensor limit = variance_.sqrt().clamp_min(kLeastDeviation) * z_score_;
    is_bad = is_bad.logical_or(delta.gt(limit).logical_and(count_.ge(kWindow)));
    // Until the window is full this is the plain mean. Variance: Finch 2009, section 9.
    count_.add_(is_bad.logical_not());
    const torch::Tensor alpha = count_.to(torch::kFloat64).reciprocal().clamp_min(1.0 / kWindow);
    const torch::Tensor moved = alpha * delta;
    variance_.copy_(torch::where(is_bad, variance_, (1.0 - alpha) * (variance_ + moved * delta)));
    mean_.copy_(torch::where(is_bad, mean_, mean_ + moved));
  }
  torch::Tensor is_fatal = is_bad;
  if (policy_ == OnSpike::kSkip) {
    streak_.add_(1).masked_fill_(is_bad.logical_not(), 0);
    is_fatal = streak_.gt(kMostInARow);
  }
  bad_steps_.add_(is_bad);
  fatal_step_.copy_(torch::where(is_fatal.logical_and(fatal_step_.eq(0)), step, fatal_step_));
  const torch::Tensor left_out = is_bad.to(torch::kFloat32);
  return overflow.defined() ? torch::maximum(left_out, overflow) : left_out;
}

int64_t SpikeGuard::take_bad_steps() {
  const auto n = bad_steps_.item<int64_t>();
  if (n > 0) bad_steps_.zero_();
  return n;
}

void SpikeGuard::store(CheckpointState& state) const {
  state.loss_mean.reset();
  state.loss_variance.reset();
  state.loss_count = 0;
  state.bad_streak = policy_ == OnSpike::kSkip ? streak_.item<int64_t>() : 0;
  if (z_score_ <= 0) return;
  state.loss_count = count_.item<int64_t>();
  if (state.loss_count == 0) return;
  state.loss_mean = mean_.item<double>();
  state.loss_variance = variance_.item<double>();
}

void SpikeGuard::restore(const CheckpointState& state) {
  mean_.fill_(state.loss_mean.value_or(0));
  variance_.fill_(state.loss_variance.value_or(0));
  count_.fill_(state.loss_count);
  streak_.fill_(state.bad_streak);
  fatal_step_.zero_();
  bad_steps_.zero_();
}

}  // namespace tril
