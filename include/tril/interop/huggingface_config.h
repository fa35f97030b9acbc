#pragma once
// Hugging Face's config.json and ours: what fits, what does not, and why. No Torch here.

#include <cstdint>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/config/model_config.h"

namespace tril {

/// A foreign config, understood.
struct ForeignConfig {
  ModelConfig model;
  bool is_llama = false;             ///< tensor names of the Llama family, else GPT-2's
  std::vector<std::string> notices;  ///< what was read in a way worth telling
};

/// Reads a config.json of model_type gpt2, llama, mistral (without a sliding window) or qwen2.
/// Whatever would change the computation is honoured or refused by name: CheckpointError with
/// `origin`, key, value and what is possible. Dropout is training's business and stays 0.
ForeignConfig read_huggingface_config(const Json& json, const std::string& origin);

/// Formats of `tril export`.
enum class ExportFormat { kHuggingFace, kGguf };

/// Which family of a format holds a model.
struct ExportPlan {
  bool is_llama = false;
  /// The model as the format sees it: where the format always has biases, with biases (zeros).
  ModelConfig model;
  bool adds_zero_biases = false;
};

/// Throws ConfigError that names every key of the model for which the format has no place.
ExportPlan plan_export(const ModelConfig& config, ExportFormat format);

/// The config.json for a plan. `end_of_text`: the tokenizer's, or -1. `dtype`: "float32", ...
OrderedJson write_huggingface_config(const ExportPlan& plan,
                                     int64_t end_of_text,
                                     const std::string& dtype);

}  // namespace tril
