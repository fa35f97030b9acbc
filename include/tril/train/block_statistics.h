#pragma once
// How large the weights and the gradients of each part of the model are.

#include <string>
#include <vector>

#include "tril/optim/parameters.h"

namespace tril {

/// One entry per part, from the embeddings through the blocks to the head.
struct BlockStatistics {
  std::vector<std::string> names;  ///< "embedding", "block 0", …, "head"
  std::vector<double> weight_rms;  ///< root mean square of the part's weights
  std::vector<double> grad_norm;   ///< of the part; together (root of squares) `total_grad_norm`
};

/// Of the gradients that the parameters hold now. The optimizer may have scaled these, all alike:
/// they are scaled back so that they add up to `total_grad_norm`, the norm before clipping.
BlockStatistics block_statistics(const std::vector<NamedTensor>& parameters,
                                 double total_grad_norm);

/// Each parameter's sum of squares of its gradient, 0-dim double; 0 where it has none.
std::vector<torch::Tensor> squares_of_gradients(const std::vector<NamedTensor>& parameters);

/// The same from each parameter's sum of squares, 0-dim double, where no process has all gradients.
BlockStatistics block_statistics(const std::vector<NamedTensor>& parameters,
                                 const std::vector<torch::Tensor>& gradient_squares,
                                 double total_grad_norm);

}  // namespace tril
