#pragma once
// The tensors of a foreign checkpoint: from safetensors files or carved out of another format.

#include <torch/torch.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tril/base/safetensors.h"
#include "tril/interop/tensor_rules.h"
#include "tril/model/gpt.h"

namespace tril {

/// Named tensors whose bytes lie in mapped files. Names are kept without module prefixes.
class ForeignTensors {
 public:
  struct Entry {
    std::string name;   ///< without prefix
    std::string given;  ///< as the file has it
    std::string dtype;  ///< "F32", "F16", "BF16", ... as in safetensors
    std::vector<int64_t> shape;
    std::span<const std::byte> data;
  };

  /// Adds all tensors of a file. CheckpointError for a damaged file, or a name that is there twice.
  void add_file(const std::filesystem::path& path);
  /// Adds one tensor; `owner` keeps its bytes alive.
  void add(Entry entry, std::shared_ptr<const void> owner);

  /// Forgets a tensor that repeats another.
  void remove(const std::string& name) { entries_.erase(name); }

  const Entry* find(const std::string& name) const;
  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Metadata of the files added, later ones over earlier ones.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int64_t element_count() const { return element_count_; }

  /// The values as float32, in the file's shape. CheckpointError for a type that is no number with
  /// a fraction.
  static torch::Tensor read(const Entry& entry);
  /// True when both hold the same values.
  static bool equal(const Entry& a, const Entry& b);

 private:
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::vector<std::shared_ptr<const void>> owners_;
  int64_t element_count_ = 0;
};

/// A model of `config` with the weights that `rules` find in `tensors`. Missing, unknown and
/// misshapen tensors are reported all at once (CheckpointError that begins with `origin`), before
/// the model is built; buffers of `naming` are passed over.
GPT build_model(const ModelConfig& config,
                Naming naming,
                const ForeignTensors& tensors,
                const std::string& origin);

/// Parameters by name, detached.
using ParameterMap = std::map<std::string, torch::Tensor>;
ParameterMap parameter_map(const GPT& model);

/// The tensor of a file that `rule` describes, float32 and contiguous. Rows of ids from
/// `vocab_size` on (padding) are left out.
torch::Tensor foreign_tensor(const TensorRule& rule,
                             const ParameterMap& parameters,
                             int64_t vocab_size);

/// `model` under another config that differs in biases and padding only: biases it lacks are zeros.
GPT with_config(const GPT& model, const ModelConfig& config);

}  // namespace tril
