#pragma once
// Muon: momentum whose matrices are made orthogonal before they are applied.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tril/config/optimizer_config.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/parameter_rules.h"
#include "tril/optim/parameters.h"

namespace tril {

/// Muon (Jordan et al. 2024; torch.optim.Muon with nesterov and adjust_lr_fn "original") over
/// matrices. For each matrix W of shape (r, c) with gradient g, at learning rate a:
///   m <- momentum m + (1 - momentum) g
///   W <- (1 - a weight_decay) W - a sqrt(max(1, r / c)) newton_schulz((1 - momentum) g + momentum
///   m)
/// Matrices of one shape are computed together, in batches of at most kMuonBatchElements numbers.
class Muon {
 public:
  /// `matrices`: two-dimensional tensors; in a GPT the weights inside its blocks.
  Muon(const std::vector<NamedTensor>& matrices, const OptimizerConfig& config);
  /// `rates`: of the whole model, where these are only some of its matrices.
  Muon(const std::vector<NamedTensor>& matrices,
       const OptimizerConfig& config,
       const LayerRates& rates);

  /// One update with the gradients that the matrices hold, divided by `gradient.divisor`; nothing
  /// at all changes where `gradient.found_inf` is 1. The rate is a rate_tensor().
  void step(const torch::Tensor& learning_rate, const GradientNorm& gradient);
  void step(double learning_rate, const GradientNorm& gradient);

  /// "momentum.<parameter>": live tensors; copying into them restores a state.
  std::vector<NamedTensor> state() const;

 private:
  /// Matrices of one shape that learn at the same rate.
  struct Batch {
    double rate_factor = 1.0;  ///< optimizer.layer_decay
    std::vector<std::string> names;
    std::vector<torch::Tensor> matrices;  ///< N x (r, c)
    torch::Tensor momentum;               ///< (N, r, c)
  };

  OptimizerConfig config_;
  torch::ScalarType products_;  ///< in which the matrices are multiplied
  std::vector<Batch> batches_;
};

/// What a step at this rate leaves of a weight before it adds the update: 1 - rate * decay, or 1
/// where nothing may change. 0-dim.
torch::Tensor kept_share(const torch::Tensor& learning_rate,
                         double weight_decay,
                         const GradientNorm& gradient);

/// Bounds the working memory of a step: three tensors of this many numbers.
inline constexpr int64_t kMuonBatchElements = int64_t{1} << 24;

}  // namespace tril
