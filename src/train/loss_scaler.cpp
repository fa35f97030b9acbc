#include "tril/train/loss_scaler.h"

namespace tril {

LossScaler::LossScaler(torch::ScalarType precision, torch::Device device) {
  if (precision != torch::kFloat16) return;
  const auto options = torch::TensorOptions().device(device);
  scale_ = torch::full({}, kFirstScale, options.dtype(torch::kFloat32));
  good_steps_ = torch::zeros({}, options.dtype(torch::kInt32));
  overflows_ = torch::zeros({}, options.dtype(torch::kInt64));
}

torch::Tensor LossScaler::update(const torch::Tensor& loss, const torch::Tensor& found_inf) {
  if (!scale_.defined()) return {};
  const torch::NoGradGuard no_grad;
  const torch::Tensor overflow = found_inf.gt(0)
                                     .logical_and(loss.isfinite())
                                     .logical_and(scale_.gt(kLeastScale))
                                     .to(torch::kFloat32);
  overflows_.add_(overflow);
  at::_amp_update_scale_(scale_,
                         good_steps_,
                         found_inf,
                         /*scale_growth_factor=*/2.0,
                         /*scale_backoff_factor=*/0.5,
                         kGrowthInterval);
  scale_.clamp_min_(kLeastScale);
  return overflow;
}

int64_t LossScaler::take_overflows() {
  if (!scale_.defined()) return 0;
  const auto n = overflows_.item<int64_t>();
  if (n > 0) overflows_.zero_();
  return n;
}

double LossScaler::value() const {
  return scale_.defined() ? scale_.item<double>() : 1.0;
}

void LossScaler::store(CheckpointState& state) const {
  state.loss_scale.reset();
  state.loss_scale_steps = 0;
  if (!scale_.defined()) return;
  state.loss_scale = scale_.item<double>();
  state.loss_scale_steps = good_steps_.item<int64_t>();
}

void LossScaler::restore(const CheckpointState& state) {
  if (!scale_.defined()) return;
  scale_.fill_(state.loss_scale.value_or(kFirstScale));
  good_steps_.fill_(state.loss_scale_steps);
  overflows_.zero_();
}

}  // namespace tril
