// The numbers of tril inspect weights.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/inspect/weight_report.h"
#include "tril/optim/parameters.h"

namespace tril {
namespace {

constexpr int64_t kMostValues = 64;

/// Singular values, falling: roots of the eigenvalues of the smaller Gram matrix.
std::vector<double> singular_values(const torch::Tensor& matrix) {
  const torch::Tensor a = matrix.to(torch::kFloat64);
  const torch::Tensor gram = a.size(0) <= a.size(1) ? a.matmul(a.t()) : a.t().matmul(a);
  const torch::Tensor values =
      torch::linalg_eigvalsh(gram).clamp_min(0).sqrt().flip(0).to(torch::kCPU).contiguous();
  const auto* data = values.const_data_ptr<double>();
  return {data, data + values.numel()};
}

}  // namespace

std::vector<WeightSummary> summarize_weights(const GPT& model) {
  const torch::NoGradGuard no_grad;
  std::vector<WeightSummary> result;
  for (const auto& [name, tensor] : unique_parameters(*model)) {
    WeightSummary summary;
    summary.name = name;
    summary.shape = tensor.sizes().vec();
    summary.rms = tensor.to(torch::kFloat64).square().mean().sqrt().item<double>();
    summary.largest = tensor.abs().max().item<double>();
    if (!std::isfinite(summary.rms)) {
      throw CheckpointError(fmt::format("{} holds numbers that are not finite", name));
    }
    if (tensor.dim() == 2) {
      const auto values = singular_values(tensor);
      const auto n = static_cast<int64_t>(values.size());
      const int64_t n_kept = std::min(n, kMostValues);
      for (int64_t k = 0; k < n_kept; ++k) {
        const int64_t i = n_kept > 1 ? k * (n - 1) / (n_kept - 1) : 0;
        summary.spectrum.push_back(values[static_cast<size_t>(i)]);
      }
      summary.spectral_norm = values.front();
      const double squared = summary.rms * summary.rms * static_cast<double>(tensor.numel());
      const double top = std::max(values.front() * values.front(), 1e-300);
      summary.stable_rank = squared / top;
    }
    result.push_back(std::move(summary));
  }
  return result;
}

std::vector<TokenNeighbours> embedding_neighbours(const GPT& model,
                                                  const std::vector<int64_t>& ids,
                                                  int64_t vocab_size,
                                                  int64_t n) {
  const torch::NoGradGuard no_grad;
  n = std::min(n, vocab_size - 1);
  std::vector<TokenNeighbours> result;
  if (n < 1) return result;
  const torch::Tensor rows = model->token_embedding->weight.narrow(0, 0, vocab_size);  // (V, C)
  const torch::Tensor unit = rows / rows.norm(2, /*dim=*/-1, /*keepdim=*/true).clamp_min(1e-12);
  for (const int64_t id : ids) {
    torch::Tensor cosines = unit.mv(unit[id]);  // (V)
    cosines[id] = -2;                           // never its own neighbour
    const auto [top, top_ids] = cosines.topk(n);
    const torch::Tensor values = top.to(torch::kCPU, torch::kFloat64);
    const torch::Tensor indices = top_ids.to(torch::kCPU);
    TokenNeighbours neighbours{.id = id, .nearest = {}};
    for (int64_t k = 0; k < n; ++k) {
      neighbours.nearest.push_back(
          {indices.const_data_ptr<int64_t>()[k], values.const_data_ptr<double>()[k]});
    }
    result.push_back(std::move(neighbours));
  }
  return result;
}

}  // namespace tril
