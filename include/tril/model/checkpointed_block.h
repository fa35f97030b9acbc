#pragma once
// Activation checkpointing: memory for time.

#include <torch/torch.h>

#include "tril/model/block.h"
#include "tril/model/weight_lender.h"

namespace tril {

/// block(x), of which only x is kept: the backward pass computes the block once more, with the same
/// random numbers and the same precision, so loss and gradients are the same bit for bit (tests).
/// The block's parameters are inputs of the operation, so their gradients arrive as ever.
///   x        (B, T, C)
///   returns  (B, T, C)
///   lender   lends the block's weights, its unit `unit`, to the backward pass; none: they are
///   there
torch::Tensor checkpointed_forward(Block block,
                                   const torch::Tensor& x,
                                   WeightLender* lender = nullptr,
                                   size_t unit = 0);

}  // namespace tril
