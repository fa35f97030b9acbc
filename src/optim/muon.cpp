#include "tril/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "tril/optim/newton_schulz.h"

namespace tril {

Muon::Muon(const std::vector<NamedTensor>& matrices, const OptimizerConfig& config)
    : Muon(matrices, config, LayerRates(matrices, config.layer_decay)) {}

Muon::Muon(const std::vector<NamedTensor>& matrices,
           const OptimizerConfig& config,
           const LayerRates& rates)
    : config_(config) {
  TORCH_CHECK(!matrices.empty(), "Muon: no matrices");
  products_ = newton_schulz_dtype(config.matrix_precision, matrices[0].tensor.device());
  for (const auto& [name, tensor] : matrices) {
    const double rate_factor = rates.factor(name);
    TORCH_CHECK(tensor.dim() == 2, "Muon: ", name, " is not a matrix");
    const auto has_room = [&](const Batch& batch) {
      const auto n = static_cast<int64_t>(batch.matrices.size());
      return batch.matrices[0].sizes() == tensor.sizes() && batch.rate_factor == rate_factor &&
             (n + 1) * tensor.numel() <= kMuonBatchElements;
    };
    auto batch = std::find_if(batches_.begin(), batches_.end(), has_room);
    if (batch == batches_.end()) {
      batch = batches_.insert(batches_.end(), Batch{});
      batch->rate_factor = rate_factor;
    }
    batch->names.push_back(name);
    batch->matrices.push_back(tensor);
  }
  for (Batch& batch : batches_) {
    const auto n = static_cast<int64_t>(batch.matrices.size());
    const auto& first = batch.matrices[0];
    batch.momentum =
        torch::zeros({n, first.size(0), first.size(1)}, first.options().requires_grad(false));
  }
}

torch::Tensor kept_share(const torch::Tensor& learning_rate,
                         double weight_decay,
                         const GradientNorm& gradient) {
  const torch::Tensor lost = (learning_rate * weight_decay).to(gradient.found_inf.scalar_type());
  return 1.0 - (1.0 - gradient.found_inf) * lost;
}

void Muon::step(double learning_rate, const GradientNorm& gradient) {
  step(rate_tensor(learning_rate, batches_[0].momentum.device()), gradient);
}

void Muon::step(const torch::Tensor& learning_rate, const GradientNorm& gradient) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor alive = 1.0 - gradient.found_inf;  // 1, or 0: nothing may change
  const torch::Tensor is_bad = gradient.found_inf.gt(0);
  for (Batch& batch : batches_) {
    const torch::Tensor batch_rate = learning_rate * batch.rate_factor;
    const torch::Tensor keep = kept_share(batch_rate, config_.weight_decay, gradient);
    std::vector<torch::Tensor> gradients;
    gradients.reserve(batch.matrices.size());
    for (const auto& matrix : batch.matrices) gradients.push_back(matrix.grad());
    torch::Tensor g = torch::stack(gradients).div_(gradient.divisor);  // (N, r, c)
    g.masked_fill_(is_bad, 0.0);                                       // NaN * 0 would be NaN
    batch.momentum.lerp_(g, alive * (1.0 - config_.momentum));
    g.lerp_(batch.momentum, config_.momentum);  // Nesterov: one step ahead

    const auto rows = static_cast<double>(g.size(1)), columns = static_cast<double>(g.size(2));
    const torch::Tensor rate = batch_rate * std::sqrt(std::max(1.0, rows / columns));
    const torch::Tensor update =
        newton_schulz(g, products_).to(g.scalar_type()).mul_(alive * -rate.to(alive.scalar_type()));
    at::_foreach_mul_(batch.matrices, keep);
    at::_foreach_add_(batch.matrices, update.unbind(0));
  }
}

std::vector<NamedTensor> Muon::state() const {
  std::vector<NamedTensor> result;
  for (const Batch& batch : batches_) {
    for (size_t i = 0; i < batch.names.size(); ++i) {
      result.push_back(
          {"momentum." + batch.names[i], batch.momentum.select(0, static_cast<int64_t>(i))});
    }
  }
  return result;
}

}  // namespace tril
