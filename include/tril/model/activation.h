#pragma once
// The bend in the feed-forward network: plain, and fast for training on the CPU.

#include <torch/torch.h>

#include "tril/config/model_config.h"

namespace tril {

/// relu, gelu, gelu_tanh or relu_squared (x of any shape; swiglu has two inputs and is not here).
/// On the CPU value and derivative, where a gradient will be asked for, are formed in one pass, and
/// the backward pass is one multiplication. Elsewhere the same as activate_plain.
torch::Tensor activate(const torch::Tensor& x, Activation activation);

/// The same through LibTorch's own functions: what the fast form is tested against.
torch::Tensor activate_plain(const torch::Tensor& x, Activation activation);

}  // namespace tril
