#pragma once
// Which tensor of a foreign checkpoint is which of ours: one table per family of names, used in
// both directions.

#include <string>
#include <string_view>
#include <vector>

#include "tril/config/model_config.h"

namespace tril {

/// Families of tensor names.
enum class Naming {
  kHuggingFaceGpt2,  ///< "h.0.attn.c_attn.weight", matrices (in, out)
  kNanoGpt,          ///< the same names, matrices (out, in)
  kTlfs,             ///< train-llm-from-scratch: one matrix per head
  kLlama,            ///< Hugging Face: "layers.0.self_attn.q_proj.weight"
  kGgufGpt2,         ///< "blk.0.attn_qkv.weight"
  kGgufLlama,        ///< "blk.0.attn_q.weight"; queries and keys turn in adjacent pairs
};

/// One tensor of a file.
struct TensorRule {
  std::string foreign;            ///< its name, without a module prefix ("transformer.", "model.")
  std::vector<std::string> ours;  ///< parameters, one below the other along the first dimension
  bool transposed = false;        ///< the file holds (in, out)
  /// Not 0: rows of each head (of this size) stand in the order 0, D/2, 1, D/2 + 1, ...: for
  /// programs whose rotation turns adjacent pairs where ours turns halves.
  int64_t paired_rows = 0;
};

/// A rule for each tensor that a model of this config has, in the order of the forward pass. Every
/// parameter of the model is in exactly one rule. The config must suit the naming.
std::vector<TensorRule> tensor_rules(Naming naming, const ModelConfig& config);

/// Buffers that old files hold beside the weights: masks, position numbers, frequencies.
bool is_foreign_buffer(Naming naming, std::string_view name);

/// A name without the prefixes that wrappers put before it: "module.", "_orig_mod.",
/// "transformer.", "model.".
std::string_view without_prefix(std::string_view name);

}  // namespace tril
