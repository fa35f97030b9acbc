#pragma once
// The optimizer of a run: AdamW for everything, or Muon for the matrices inside the blocks and
// AdamW for the rest (embeddings, head, norms, biases).

#include <torch/torch.h>

#include <optional>
#include <vector>

#include "tril/config/optimizer_config.h"
#include "tril/optim/adamw.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/muon.h"
#include "tril/optim/parameter_rules.h"
#include "tril/optim/parameters.h"

namespace tril {

class Optimizer {
 public:
  /// Parameters that config.frozen matches are left out and stop asking for a gradient.
  Optimizer(const std::vector<NamedTensor>& parameters, const OptimizerConfig& config);

  /// Over what one process updates: parameters or parts of them, none of them frozen; may be empty.
  /// `rates` is of the whole model. A matrix for Muon must be whole.
  Optimizer(const std::vector<NamedTensor>& pieces,
            const OptimizerConfig& config,
            const LayerRates& rates);

  /// One update at `factor` times the configured learning rates (schedule_factor), with the
  /// gradients that the parameters hold. They are divided by `gradient.divisor`; nothing at all
  /// changes where `gradient.found_inf` is 1. The factor is a rate_tensor().
  void step(const torch::Tensor& factor, const GradientNorm& gradient);
  void step(double factor, const GradientNorm& gradient);

  /// All gradients, in the order of the parameters; each parameter must have one.
  std::vector<torch::Tensor> gradients() const;

  /// Sets the gradients to none: the next backward pass writes instead of adding.
  void zero_grad();

  /// Everything that a step depends on besides parameters and gradients, by name. The tensors are
  /// the live ones: copying into them restores a state.
  std::vector<NamedTensor> state() const;

 private:
  OptimizerConfig config_;
  std::vector<torch::Tensor> parameters_;
  std::optional<Muon> muon_;
  std::optional<AdamW> adamw_;
};

/// True for what Muon takes: the matrices inside the blocks ("blocks.…", two dimensions).
bool is_muon_matrix(const NamedTensor& parameter);

}  // namespace tril
