#pragma once
// The parameters of a module under their registered names.

#include <torch/torch.h>

#include <string>
#include <vector>

namespace tril {

/// A tensor under the name it has in a checkpoint.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

/// A shape as messages show it: (2, 3).
std::string shape_text(at::IntArrayRef shape);

/// Every parameter once, in registration order: what the optimizer, clipping, counts and saving
/// use. A tensor registered under two names is listed under the first (LibTorch would list it
/// twice).
std::vector<NamedTensor> unique_parameters(const torch::nn::Module& module);

/// The tensors without their names.
std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& named);

}  // namespace tril
