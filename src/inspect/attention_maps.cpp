#include "tril/inspect/attention_maps.h"

#include <fmt/format.h>

#include <cmath>

#include "tril/base/error.h"
#include "tril/model/evaluation_mode.h"

namespace tril {
namespace {

void require_inside(const char* what, const std::optional<int64_t>& index, int64_t count) {
  if (!index || (*index >= 0 && *index < count)) return;
  throw ConfigError(
      fmt::format("--{} {}: this model has {}s 0 to {}", what, *index, what, count - 1));
}

bool is_selected(const HeadSelection& selection, int64_t block, int64_t head) {
  return selection.block.value_or(block) == block && selection.head.value_or(head) == head;
}

std::vector<float> to_vector(const torch::Tensor& weights) {
  const torch::Tensor copy = weights.to(torch::kCPU, torch::kFloat32).contiguous();
  const auto* data = copy.const_data_ptr<float>();
  return {data, data + copy.numel()};
}

}  // namespace

int64_t attention_map_bytes(const ModelConfig& config,
                            const HeadSelection& selection,
                            int64_t n_tokens) {
  const int64_t n_blocks = selection.block ? 1 : config.n_blocks;
  const int64_t n_heads = selection.head ? 1 : config.n_head;
  return n_blocks * n_heads * n_tokens * n_tokens * static_cast<int64_t>(sizeof(float));
}

AttentionMaps attention_maps(GPT& model,
                             std::span<const int64_t> ids,
                             const HeadSelection& selection) {
  require_inside("block", selection.block, model->config().n_blocks);
  require_inside("head", selection.head, model->config().n_head);
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);
  const torch::Device device = model->token_embedding->weight.device();
  const auto n_tokens = static_cast<int64_t>(ids.size());
  const torch::Tensor input =
      torch::tensor(torch::ArrayRef<int64_t>(ids.data(), ids.size()), torch::kInt64)
          .to(device)
          .unsqueeze(0);  // (T) -> (1, T)

  AttentionMaps maps;
  maps.n_tokens = n_tokens;
  torch::Tensor x = model->token_embedding(input);  // (1, T) -> (1, T, C)
  if (!model->position_embedding.is_empty()) {
    x = x + model->position_embedding->weight.narrow(0, 0, n_tokens);
  }
  for (size_t b = 0; b < model->blocks->size(); ++b) {
    auto* block = model->blocks[b]->as<BlockImpl>();
    const torch::Tensor normed = block->ln1(x);
    std::vector<torch::Tensor> outputs;
    for (size_t h = 0; h < block->attn->heads->size(); ++h) {
      const HeadAttention head = block->attn->heads[h]->as<HeadImpl>()->attention(normed);
      outputs.push_back(head.output);
      const auto block_index = static_cast<int64_t>(b);
      const auto head_index = static_cast<int64_t>(h);
      if (!is_selected(selection, block_index, head_index)) continue;
      maps.heads.push_back({block_index, head_index, to_vector(head.weights[0])});
    }
    const torch::Tensor reference = torch::cat(outputs, /*dim=*/-1);  // H x (1, T, D) -> (1, T, C)
    const torch::Tensor fused = block->attn->fused(normed);           // (1, T, C)
    const auto scale = std::max(1e-6, reference.abs().max().item<double>());
    const double difference = (reference - fused).abs().max().item<double>() / scale;
    if (!std::isfinite(difference)) {
      throw CheckpointError(fmt::format(
          "block {}: the model's output is not finite; tril checkpoint verify says whether a file "
          "is damaged",
          b));
    }
    if (difference > kPathTolerance) {
      throw CheckpointError(
          fmt::format("block {}: the heads one by one and the fused attention differ by {:.2g} of "
                      "the largest output, at most {:.0g} was expected",
                      b,
                      difference,
                      kPathTolerance));
    }
    maps.path_difference = std::max(maps.path_difference, difference);
    const torch::Tensor h = x + block->attn->proj(reference);
    x = h + block->ffn(block->ln2(h));
  }
  return maps;
}

}  // namespace tril
