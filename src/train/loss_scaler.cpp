#include "tril/train/loss_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"

namespace tril {

LossScaler::LossScaler(torch::ScalarType precision, torch::Device device) {
  if (precision != torch::kFloat16) return;
  const auto options = torch::TensorOptions().device(device);
  scale_ = torch::full({}, kFirstScale, options.dtype(torch::kFloat32));
  good_steps_ = torch::zeros({}, options.dtype(torch::kInt32));
  overflows_ = torch::zeros({}, options.dtype(torch::kInt64));
}

torch::Tensor LossScaler::update(const torch::Tensor& loss, const torch::Tensor& found_inf) {
  if (!is_on()) return {};
  const torch::NoGradGuard no_grad;
  const torch::Tensor is_overflow =
      found_inf.gt(0).logical_and(loss.isfinite()).logical_and(scale_.gt(kLeastScale));
  overflows_.add_(is_overflow);
  at::_amp_update_scale_(scale_,
                         good_steps_,
                         found_inf,
                         /*scale_growth_factor=*/2.0,
                         /*scale_backoff_factor=*/0.5,
                         kGrowthInterval);
  scale_.clamp_min_(kLeastScale);
  return is_overflow.to(torch::kFloat32);
}

int64_t LossScaler::take_overflows() {
  if (!is_on()) return 0;
  const auto n = overflows_.item<int64_t>();
  if (n > 0) overflows_.zero_();
  return n;
}

double LossScaler::value() const {
  return is_on() ? scale_.item<double>() : 1.0;
}

void LossScaler::store(CheckpointState& state) const {
  state.loss_scale.reset();
  state.loss_scale_steps = 0;
  if (!is_on()) return;
  state.loss_scale = scale_.item<double>();
  state.loss_scale_steps = good_steps_.item<int64_t>();
}

void LossScaler::restore(const CheckpointState& state) {
  if (!is_on()) return;
  const double scale = state.loss_scale.value_or(kFirstScale);
  if (!std::isfinite(static_cast<float>(scale)) || scale < kLeastScale) {
    throw CheckpointError(fmt::format(
        "state.json: 'loss_scale': {} is not a number of at least {}", scale, kLeastScale));
  }
  scale_.fill_(scale);
  good_steps_.fill_(std::min(state.loss_scale_steps, kGrowthInterval - 1));
  overflows_.zero_();
}

}  // namespace tril
