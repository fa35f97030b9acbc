#pragma once
// Embeddings and the head where their weights are lent in pieces of rows (WeightLender): what
// torch::embedding and the whole head compute, with never more than a piece of the table there.
// Gradients are those of the whole tables.

#include <torch/torch.h>

#include "tril/model/weight_lender.h"

namespace tril {

/// Rows of a table (V, C): ids (...) int64 -> (..., C), bit for bit those of torch::embedding. The
/// table's gradient is sparse if asked for.
torch::Tensor lookup_in_pieces(WeightLender& lender,
                               const torch::Tensor& table,
                               const RowPieces& pieces,
                               const torch::Tensor& ids,
                               bool sparse_gradient);

/// The last linear map, lent in lender.units().head.
struct LentHead {
  WeightLender& lender;
  torch::Tensor weight;  ///< (padded V, C)
  torch::Tensor bias;    ///< (padded V) or undefined
  int64_t vocab_size;    ///< rows from here on take no probability
};

/// x (N, C) -> (N, padded V), without gradient.
torch::Tensor logits_in_pieces(const LentHead& head, const torch::Tensor& x);

/// Loss of each target in nats, without gradient: x (N, C), targets (N) -> (N) float.
torch::Tensor token_losses_in_pieces(const LentHead& head,
                                     const torch::Tensor& x,
                                     const torch::Tensor& targets);

struct LossAndGradients {
  torch::Tensor loss;      ///< 0-dim
  torch::Tensor d_hidden;  ///< (N, C)
  torch::Tensor d_weight;  ///< (padded V, C)
  torch::Tensor d_bias;    ///< (padded V); undefined without bias
};

/// scale * sum of the targets' losses. Forward over the pieces for the softmax's maximum and sum,
/// then back over them for the gradients, so each product of the head is made twice.
///   x        (N, C) in the precision of the products; gradients come in `gradient_type`
///   targets  (N)
LossAndGradients loss_in_pieces(const LentHead& head,
                                const torch::Tensor& x,
                                const torch::Tensor& targets,
                                double scale,
                                torch::ScalarType gradient_type);

}  // namespace tril
