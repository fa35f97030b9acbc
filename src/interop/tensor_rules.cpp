#include "tril/interop/tensor_rules.h"

#include <fmt/format.h>

#include <array>

namespace tril {
namespace {

/// What a family calls the parts of a model. An empty name: the part does not exist there.
struct Names {
  std::string_view token_embedding = {}, position_embedding = {};
  std::string_view block = {};  ///< before the block's number
  std::string_view ln1 = {}, qkv = {}, query = {}, key = {}, value = {}, proj = {}, ln2 = {},
                   up = {}, gate = {}, down = {};
  std::string_view final_norm = {}, head = {};
};

constexpr Names kGpt2Names{.token_embedding = "wte",
                           .position_embedding = "wpe",
                           .block = "h.",
                           .ln1 = "ln_1",
                           .qkv = "attn.c_attn",
                           .proj = "attn.c_proj",
                           .ln2 = "ln_2",
                           .up = "mlp.c_fc",
                           .down = "mlp.c_proj",
                           .final_norm = "ln_f",
                           .head = "lm_head"};
constexpr Names kTlfsNames{.token_embedding = "token_embed",
                           .position_embedding = "position_embed",
                           .block = "attn_blocks.",
                           .ln1 = "ln1",
                           .proj = "attn.proj",
                           .ln2 = "ln2",
                           .up = "mlp.hidden",
                           .down = "mlp.proj",
                           .final_norm = "layer_norm",
                           .head = "lm_head"};
constexpr Names kLlamaNames{.token_embedding = "embed_tokens",
                            .block = "layers.",
                            .ln1 = "input_layernorm",
                            .query = "self_attn.q_proj",
                            .key = "self_attn.k_proj",
                            .value = "self_attn.v_proj",
                            .proj = "self_attn.o_proj",
                            .ln2 = "post_attention_layernorm",
                            .up = "mlp.up_proj",
                            .gate = "mlp.gate_proj",
                            .down = "mlp.down_proj",
                            .final_norm = "norm",
                            .head = "lm_head"};
constexpr Names kGgufNames{.token_embedding = "token_embd",
                           .position_embedding = "position_embd",
                           .block = "blk.",
                           .ln1 = "attn_norm",
                           .qkv = "attn_qkv",
                           .query = "attn_q",
                           .key = "attn_k",
                           .value = "attn_v",
                           .proj = "attn_output",
                           .ln2 = "ffn_norm",
                           .up = "ffn_up",
                           .gate = "ffn_gate",
                           .down = "ffn_down",
                           .final_norm = "output_norm",
                           .head = "output"};

const Names& names_of(Naming naming) {
  switch (naming) {
    case Naming::kHuggingFaceGpt2:
    case Naming::kNanoGpt:
      return kGpt2Names;
    case Naming::kTlfs:
      return kTlfsNames;
    case Naming::kLlama:
      return kLlamaNames;
    case Naming::kGgufGpt2:
    case Naming::kGgufLlama:
      break;
  }
  return kGgufNames;
}

/// Collects the rules of one model.
class RuleList {
 public:
  RuleList(Naming naming, const ModelConfig& config)
      : naming_(naming), config_(config), names_(names_of(naming)) {}

  std::vector<TensorRule> make() {
    add(names_.token_embedding, ".weight", {"token_embedding.weight"});
    if (config_.positions == Positions::kLearned) {
      add(names_.position_embedding, ".weight", {"position_embedding.weight"});
    }
    for (int64_t i = 0; i < config_.n_blocks; ++i) add_block(i);
    add_norm(names_.final_norm, "final_norm");
    if (!config_.tie_embeddings) add(names_.head, ".weight", {"lm_head.weight"});
    if (config_.head_bias) add(names_.head, ".bias", {"lm_head.bias"});
    return std::move(rules_);
  }

 private:
  TensorRule& add(std::string_view foreign,
                  std::string_view ending,
                  std::vector<std::string> ours) {
    return rules_.emplace_back(TensorRule{fmt::format("{}{}", foreign, ending), std::move(ours)});
  }
  void add_norm(std::string_view foreign, const std::string& ours) {
    add(foreign, ".weight", {ours + ".weight"});
    if (config_.norm == Norm::kLayerNorm && config_.bias) add(foreign, ".bias", {ours + ".bias"});
  }
  void add_linear(std::string_view foreign, const std::string& ours, bool has_bias) {
    add(foreign, ".weight", {ours + ".weight"}).transposed = transposed();
    if (has_bias) add(foreign, ".bias", {ours + ".bias"});
  }
  bool transposed() const { return naming_ == Naming::kHuggingFaceGpt2; }

  /// "blocks.0.attn.heads.0.query.weight", ... of all heads.
  static void append_heads(std::vector<std::string>& ours,
                           const std::string& attn,
                           std::string_view part,
                           std::string_view ending,
                           int64_t n_head,
                           int64_t stride = 1) {
    for (int64_t h = 0; h < n_head; h += stride) {
      ours.push_back(fmt::format("{}.heads.{}.{}{}", attn, h, part, ending));
    }
  }

  void add_attention(const std::string& foreign, const std::string& attn) {
    const int64_t n_head = config_.n_head;
    // Heads of one group share the key and value of the group's first.
    const int64_t kv_stride = n_head / config_.kv_heads();
    const std::array<std::string_view, 2> endings = {".weight", ".bias"};
    for (size_t e = 0; e < (config_.qkv_bias ? 2U : 1U); ++e) {
      if (naming_ == Naming::kTlfs) {
        for (int64_t h = 0; h < n_head; ++h) {
          for (const std::string_view part : {"query", "key", "value"}) {
            add(fmt::format("{}attn.heads.{}.{}", foreign, h, part),
                endings[e],
                {fmt::format("{}.heads.{}.{}{}", attn, h, part, endings[e])});
          }
        }
      } else if (naming_ == Naming::kLlama || naming_ == Naming::kGgufLlama) {
        const bool paired = naming_ == Naming::kGgufLlama;
        const auto part = [&](std::string_view theirs, std::string_view ours, int64_t stride) {
          std::vector<std::string> parameters;
          append_heads(parameters, attn, ours, endings[e], n_head, stride);
          return &add(foreign + std::string(theirs), endings[e], std::move(parameters));
        };
        const int64_t rows = paired ? config_.head_size() : 0;
        part(names_.query, "query", 1)->paired_rows = rows;
        part(names_.key, "key", kv_stride)->paired_rows = rows;
        part(names_.value, "value", kv_stride);
      } else {
        std::vector<std::string> parameters;
        append_heads(parameters, attn, "query", endings[e], n_head);
        append_heads(parameters, attn, "key", endings[e], n_head, kv_stride);
        append_heads(parameters, attn, "value", endings[e], n_head, kv_stride);
        add(foreign + std::string(names_.qkv), endings[e], std::move(parameters)).transposed =
            e == 0 && transposed();
      }
    }
  }

  void add_block(int64_t i) {
    const std::string foreign = fmt::format("{}{}.", names_.block, i);
    const std::string ours = fmt::format("blocks.{}", i);
    const auto theirs = [&](std::string_view name) { return foreign + std::string(name); };
    add_norm(theirs(names_.ln1), ours + ".ln1");
    add_attention(foreign, ours + ".attn");
    add_linear(theirs(names_.proj), ours + ".attn.proj", config_.bias);
    add_norm(theirs(names_.ln2), ours + ".ln2");
    if (config_.activation == Activation::kSwiglu) {
      add_linear(theirs(names_.gate), ours + ".ffn.gate", config_.bias);
    }
    add_linear(theirs(names_.up), ours + ".ffn.up", config_.bias);
    add_linear(theirs(names_.down), ours + ".ffn.down", config_.bias);
  }

  Naming naming_;
  const ModelConfig& config_;
  const Names& names_;
  std::vector<TensorRule> rules_;
};

}  // namespace

std::vector<TensorRule> tensor_rules(Naming naming, const ModelConfig& config) {
  return RuleList(naming, config).make();
}

bool is_foreign_buffer(Naming naming, std::string_view name) {
  switch (naming) {
    case Naming::kHuggingFaceGpt2:
    case Naming::kNanoGpt:
      return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    case Naming::kTlfs:
      return name.ends_with(".tril") || name == "pos_idxs";
    case Naming::kLlama:
      return name.ends_with("rotary_emb.inv_freq");
    case Naming::kGgufGpt2:
    case Naming::kGgufLlama:
      break;
  }
  return false;
}

std::string_view without_prefix(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"module.", "_orig_mod.", "transformer.", "model."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      again = true;
    }
  }
  return name;
}

}  // namespace tril
