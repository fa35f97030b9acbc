#pragma once
// AdamW in one pass over memory, with clipping and the non-finite check folded in.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tril/config/optimizer_config.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/parameter_rules.h"
#include "tril/optim/parameters.h"

namespace tril {

/// AdamW (Loshchilov and Hutter 2019) over all parameters, through LibTorch's fused kernel.
/// Weight decay acts on tensors of two or more dimensions only; learning rates may fall from block
/// to block (optimizer.layer_decay).
class AdamW {
 public:
  AdamW(std::vector<NamedTensor> parameters, const OptimizerConfig& config);
  /// `rates`: of the whole model, where these are only some of its parameters.
  AdamW(std::vector<NamedTensor> parameters,
        const OptimizerConfig& config,
        const LayerRates& rates);

  /// One update with the gradients that the parameters hold. They are divided by
  /// `gradient.divisor`; nothing at all changes where `gradient.found_inf` is 1. The rate is a
  /// rate_tensor().
  void step(const torch::Tensor& learning_rate, const GradientNorm& gradient);
  void step(double learning_rate, const GradientNorm& gradient);

  /// All gradients, in the order of the parameters; each parameter must have one.
  std::vector<torch::Tensor> gradients() const;

  /// Sets the gradients to none: the next backward pass writes instead of adding.
  void zero_grad();

  /// Moments and step count, by name: "exp_avg.<parameter>", "exp_avg_sq.<parameter>", "step".
  /// The tensors are the live ones: copying into them restores a state.
  std::vector<NamedTensor> state() const;

 private:
  /// Parameters that share a weight decay and a factor of the learning rate.
  struct Group {
    double weight_decay = 0.0;
    double rate_factor = 1.0;
    std::vector<std::string> names;
    std::vector<torch::Tensor> parameters, exp_avgs, exp_avg_sqs, steps;
  };

  OptimizerConfig config_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Group> groups_;
  torch::Tensor step_;  ///< updates applied, float 0-dim; one tensor for all parameters
};

}  // namespace tril
