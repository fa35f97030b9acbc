#include "tril/train/block_statistics.h"

#include <algorithm>
#include <cmath>

namespace tril {
namespace {

/// The part that a parameter belongs to: "blocks.3.attn…" -> "block 3".
std::string part_of(const std::string& name) {
  if (name.starts_with("blocks.")) {
    return "block " + std::to_string(std::stoi(name.substr(7)));
  }
  const bool is_embedding = name.find("embedding") != std::string::npos;
  return is_embedding ? "embedding" : "head";
}

}  // namespace

BlockStatistics block_statistics(const std::vector<NamedTensor>& parameters,
                                 double total_grad_norm) {
  return block_statistics(parameters, squares_of_gradients(parameters), total_grad_norm);
}

std::vector<torch::Tensor> squares_of_gradients(const std::vector<NamedTensor>& parameters) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> squares;
  for (const auto& [name, tensor] : parameters) {
    squares.push_back(tensor.grad().defined()
                          ? tensor.grad().square().sum(torch::kFloat64)
                          : torch::zeros({}, tensor.options().dtype(torch::kFloat64)));
  }
  return squares;
}

BlockStatistics block_statistics(const std::vector<NamedTensor>& parameters,
                                 const std::vector<torch::Tensor>& gradient_squares,
                                 double total_grad_norm) {
  const torch::NoGradGuard no_grad;
  BlockStatistics result;
  std::vector<double> n_weights;
  std::vector<size_t> part;            // of each parameter
  std::vector<torch::Tensor> squares;  // sums of squares: weights, gradients, by turns
  for (const auto& [name, tensor] : parameters) {
    const std::string label = part_of(name);
    const auto found = std::find(result.names.begin(), result.names.end(), label);
    part.push_back(static_cast<size_t>(found - result.names.begin()));
    if (found == result.names.end()) {
      result.names.push_back(label);
      n_weights.push_back(0);
    }
    n_weights[part.back()] += static_cast<double>(tensor.numel());
    squares.push_back(tensor.square().sum(torch::kFloat64));
    squares.push_back(gradient_squares[part.size() - 1]);
  }
  const torch::Tensor sums = torch::stack(squares).to(torch::kCPU);  // one wait for the device
  const auto* values = sums.const_data_ptr<double>();
  result.weight_rms.resize(result.names.size());
  result.grad_norm.resize(result.names.size());
  double total = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    result.weight_rms[part[i]] += values[2 * i];
    result.grad_norm[part[i]] += values[2 * i + 1];
    total += values[2 * i + 1];
  }
  const double scale = total > 0 ? total_grad_norm / std::sqrt(total) : 0;
  for (size_t p = 0; p < result.names.size(); ++p) {
    result.weight_rms[p] = std::sqrt(result.weight_rms[p] / n_weights[p]);
    result.grad_norm[p] = scale * std::sqrt(result.grad_norm[p]);
  }
  return result;
}

}  // namespace tril
