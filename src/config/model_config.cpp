#include "tril/config/model_config.h"

#include <fmt/format.h>

#include "tril/base/error.h"

namespace tril {

namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Weights of the matrices in one block: query, projection (C C each), key, value (C by the heads
/// they have), feed-forward.
int64_t block_matrix_weights(const ModelConfig& config) {
  const int64_t C = config.n_embed;
  const int64_t n_ffn_matrices = config.activation == Activation::kSwiglu ? 3 : 2;
  const int64_t kv_width = config.kv_heads() * config.head_size();
  return 2 * C * C + 2 * C * kv_width + n_ffn_matrices * C * config.ffn_size();
}

int64_t norm_parameters(const ModelConfig& config) {
  const bool has_bias = config.norm == Norm::kLayerNorm && config.bias;
  return has_bias ? 2 * config.n_embed : config.n_embed;
}

}  // namespace

int64_t ModelConfig::ffn_size() const {
  if (ffn_width > 0) return ffn_width;
  if (activation == Activation::kSwiglu) return round_up(8 * n_embed / 3, 64);
  return ffn_multiplier * n_embed;
}

int64_t ModelConfig::padded_vocab_size() const {
  return round_up(vocab_size, vocab_multiple);
}

void apply_preset(ModelConfig& config, Preset preset) {
  const bool modern = preset == Preset::kModern;
  const bool classic = preset == Preset::kClassic;
  config.preset = preset;
  config.positions = modern ? Positions::kRope : Positions::kLearned;
  config.norm = modern ? Norm::kRmsNorm : Norm::kLayerNorm;
  config.activation = modern    ? Activation::kReluSquared
                      : classic ? Activation::kRelu
                                : Activation::kGeluTanh;
  config.qk_norm = modern;
  config.bias = !modern;
  config.qkv_bias = preset == Preset::kGpt2;
  config.head_bias = classic;
  config.tie_embeddings = !classic;
}

ModelConfig model_preset(Preset preset) {
  ModelConfig config;
  apply_preset(config, preset);
  return config;
}

void validate(const ModelConfig& config, const std::string& origin) {
  if (config.n_embed % config.n_head != 0) {
    throw ConfigError(fmt::format(
        "{}: model.n_embed must be a multiple of model.n_head, so that each head gets a whole "
        "number of dimensions; found n_embed {} and n_head {} ({} x {} = {}).",
        origin,
        config.n_embed,
        config.n_head,
        config.n_head,
        config.head_size(),
        config.n_head * config.head_size()));
  }
  if (config.n_head % config.kv_heads() != 0) {
    throw ConfigError(fmt::format(
        "{}: model.n_head must be a multiple of model.n_kv_head, so that each head of keys and "
        "values serves as many heads; found n_head {} and n_kv_head {}.",
        origin,
        config.n_head,
        config.n_kv_head));
  }
  const int64_t group_size = config.n_head / config.kv_heads();
  if (config.n_shift_head > config.n_head || config.n_shift_head % group_size != 0) {
    throw ConfigError(fmt::format(
        "{}: model.n_shift_head must be 0 to model.n_head, in whole groups of {} (n_head / "
        "n_kv_head), since heads that share keys share their places; found {} of {}.",
        origin,
        group_size == 1 ? "one head" : fmt::format("{} heads", group_size),
        config.n_shift_head,
        config.n_head));
  }
  if (config.positions == Positions::kRope && config.head_size() % 2 != 0) {
    throw ConfigError(fmt::format(
        "{}: with model.positions rope the head size n_embed / n_head must be even, since "
        "dimensions turn in pairs; found {} / {} = {}. Another n_head, or positions learned.",
        origin,
        config.n_embed,
        config.n_head,
        config.head_size()));
  }
}

int64_t parameter_count(const ModelConfig& config) {
  const int64_t C = config.n_embed;
  const int64_t L = config.n_blocks;
  const int64_t F = config.ffn_size();
  const int64_t V = config.padded_vocab_size();
  int64_t block = block_matrix_weights(config) + 2 * norm_parameters(config);
  if (config.qkv_bias) block += C + 2 * config.kv_heads() * config.head_size();
  if (config.bias) block += C + (config.activation == Activation::kSwiglu ? 2 * F : F) + C;
  int64_t count = V * C + L * block + norm_parameters(config);
  if (config.positions == Positions::kLearned) count += config.context_length * C;
  if (!config.tie_embeddings) count += V * C;
  if (config.head_bias) count += V;
  return count;
}

double flops_per_token(const ModelConfig& config) {
  const auto C = static_cast<double>(config.n_embed);
  const auto L = static_cast<double>(config.n_blocks);
  const auto T = static_cast<double>(config.context_length);
  const double matrices = L * static_cast<double>(block_matrix_weights(config)) +
                          static_cast<double>(config.padded_vocab_size()) * C;
  return 6 * matrices + 6 * L * C * T;
}

}  // namespace tril
