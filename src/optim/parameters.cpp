#include "tril/optim/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

namespace tril {

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::vector<NamedTensor> unique_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> result;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      result.push_back({item.key(), item.value()});
    }
  }
  return result;
}

std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> result;
  for (const NamedTensor& tensor : named) result.push_back(tensor.tensor);
  return result;
}

}  // namespace tril
