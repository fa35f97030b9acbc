#include "tril/optim/optimizer.h"

namespace tril {

bool is_muon_matrix(const NamedTensor& parameter) {
  return parameter.name.starts_with("blocks.") && parameter.tensor.dim() == 2;
}

Optimizer::Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerConfig& config)
    : Optimizer(without_frozen(parameters, config.frozen),
                config,
                LayerRates(parameters, config.layer_decay)) {}

Optimizer::Optimizer(const std::vector<NamedTensor>& pieces,
                     const OptimizerConfig& config,
                     const LayerRates& rates)
    : config_(config) {
  std::vector<NamedTensor> matrices, others;
  for (const NamedTensor& parameter : pieces) {
    const bool takes_muon = config.name == OptimizerName::kMuon && is_muon_matrix(parameter);
    (takes_muon ? matrices : others).push_back(parameter);
    parameters_.push_back(parameter.tensor);
  }
  if (!matrices.empty()) muon_.emplace(matrices, config, rates);
  if (!others.empty()) adamw_.emplace(std::move(others), config, rates);
}

void Optimizer::step(double factor, const GradientNorm& gradient) {
  if (parameters_.empty()) return;
  step(rate_tensor(factor, parameters_[0].device()), gradient);
}

void Optimizer::step(const torch::Tensor& factor, const GradientNorm& gradient) {
  if (muon_) muon_->step(factor * config_.matrix_learning_rate, gradient);
  if (adamw_) adamw_->step(factor * config_.learning_rate, gradient);
}

std::vector<torch::Tensor> Optimizer::gradients() const {
  std::vector<torch::Tensor> result;
  result.reserve(parameters_.size());
  for (const auto& parameter : parameters_) {
    TORCH_CHECK(parameter.grad().defined(), "Optimizer: a parameter has no gradient");
    result.push_back(parameter.grad());
  }
  return result;
}

void Optimizer::zero_grad() {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

std::vector<NamedTensor> Optimizer::state() const {
  std::vector<NamedTensor> result;
  if (muon_) result = muon_->state();
  if (adamw_) {
    for (auto& tensor : adamw_->state()) result.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace tril
