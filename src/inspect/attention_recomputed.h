#pragma once
// One head's attention computed anew from its weights, in double precision and step by step: what
// attention_check compares a model with.

#include <torch/torch.h>

#include <optional>
#include <string>

#include "tril/inspect/attention_check.h"

namespace tril {

/// What each of the three projections reads: (B, T, C) each.
struct ReadBy {
  torch::Tensor query, key, value;
};

/// The largest absolute number; 0 of none.
double max_abs(const torch::Tensor& x);

/// How far a head's weights and output are from softmax(s q k^T, masked) v, with the scale s fitted
/// to the weights (the scale has a check of its own). Weights: relative to how far they are from
/// even; output: relative to its largest number.
double recomputed_difference(const ModelConfig& config,
                             const HeadProjections& projections,
                             const ReadBy& read,
                             const HeadAttention& found);

/// The factor between q k^T and the logarithms of the weights, by least squares over all pairs in a
/// row. Nothing when all scores are alike.
std::optional<double> fitted_scale(const ModelConfig& config,
                                   const HeadProjections& projections,
                                   const ReadBy& read,
                                   const HeadAttention& found);

/// ": key reads the input before the norm" when that explains a difference; else "".
std::string explain_inputs(const ModelConfig& config,
                           const HeadProjections& projections,
                           const torch::Tensor& normalized,
                           const torch::Tensor& raw,
                           const HeadAttention& found);

}  // namespace tril
