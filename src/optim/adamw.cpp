#include "tril/optim/adamw.h"

#include <algorithm>

namespace tril {

AdamW::AdamW(std::vector<NamedTensor> parameters, const OptimizerConfig& config)
    : AdamW(parameters, config, LayerRates(parameters, config.layer_decay)) {}

AdamW::AdamW(std::vector<NamedTensor> parameters,
             const OptimizerConfig& config,
             const LayerRates& rates)
    : config_(config) {
  TORCH_CHECK(!parameters.empty(), "AdamW: no parameters");
  step_ = torch::zeros({}, parameters[0].tensor.options().dtype(torch::kFloat32));
  for (auto& [name, tensor] : parameters) {
    const double weight_decay = tensor.dim() >= 2 ? config.weight_decay : 0.0;
    const double rate_factor = rates.factor(name);
    auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) {
      return g.weight_decay == weight_decay && g.rate_factor == rate_factor;
    });
    if (found == groups_.end()) {
      found = groups_.insert(groups_.end(), Group{});
      found->weight_decay = weight_decay;
      found->rate_factor = rate_factor;
    }
    Group& group = *found;
    group.names.push_back(name);
    group.parameters.push_back(tensor);
    group.exp_avgs.push_back(torch::zeros_like(tensor));
    group.exp_avg_sqs.push_back(torch::zeros_like(tensor));
    group.steps.push_back(step_);
    parameters_.push_back(std::move(tensor));
  }
}

void AdamW::step(double learning_rate, const GradientNorm& gradient) {
  step(rate_tensor(learning_rate, step_.device()), gradient);
}

void AdamW::step(const torch::Tensor& learning_rate, const GradientNorm& gradient) {
  const torch::NoGradGuard no_grad;
  step_.add_(1.0 - gradient.found_inf);
  for (Group& group : groups_) {
    std::vector<torch::Tensor> gradients;
    gradients.reserve(group.parameters.size());
    for (const auto& parameter : group.parameters) gradients.push_back(parameter.grad());
    at::_fused_adamw_(group.parameters,
                      gradients,
                      group.exp_avgs,
                      group.exp_avg_sqs,
                      /*max_exp_avg_sqs=*/{},
                      group.steps,
                      learning_rate * group.rate_factor,
                      config_.beta1,
                      config_.beta2,
                      group.weight_decay,
                      config_.epsilon,
                      /*amsgrad=*/false,
                      /*maximize=*/false,
                      /*grad_scale=*/gradient.divisor,
                      /*found_inf=*/gradient.found_inf);
  }
}

std::vector<torch::Tensor> AdamW::gradients() const {
  std::vector<torch::Tensor> result;
  result.reserve(parameters_.size());
  for (const auto& parameter : parameters_) {
    TORCH_CHECK(parameter.grad().defined(), "AdamW: a parameter has no gradient");
    result.push_back(parameter.grad());
  }
  return result;
}

void AdamW::zero_grad() {
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

std::vector<NamedTensor> AdamW::state() const {
  std::vector<NamedTensor> result;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.names.size(); ++i) {
      result.push_back({"exp_avg." + group.names[i], group.exp_avgs[i]});
      result.push_back({"exp_avg_sq." + group.names[i], group.exp_avg_sqs[i]});
    }
  }
  result.push_back({"step", step_});
  return result;
}

}  // namespace tril
