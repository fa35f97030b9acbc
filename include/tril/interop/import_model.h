#pragma once
// Foreign weights in: finds out what a file or folder is, and makes a model of ours from it.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tril/config/model_config.h"
#include "tril/model/gpt.h"

namespace tril {

enum class ForeignFormat { kAuto, kHuggingFace, kNanoGpt, kTlfs, kLlmc };

inline constexpr EnumName<ForeignFormat> kForeignFormatNames[] = {
    {ForeignFormat::kAuto, "auto"},
    {ForeignFormat::kHuggingFace, "huggingface"},
    {ForeignFormat::kNanoGpt, "nanogpt"},
    {ForeignFormat::kTlfs, "tlfs"},
    {ForeignFormat::kLlmc, "llmc"},
};
constexpr std::span<const EnumName<ForeignFormat>> enum_names(ForeignFormat) {
  return kForeignFormatNames;
}

struct ImportedModel {
  GPT model{nullptr};  ///< on the CPU, float32
  ForeignFormat format = ForeignFormat::kAuto;
  std::vector<std::string> notices;  ///< what was read in a way worth telling
};

/// Reads
///   huggingface  a folder with config.json and model.safetensors (or its shards)
///   nanogpt      a .safetensors file with nanoGPT's names; scripts/convert_pt.py makes it and
///                stores n_head in it
///   tlfs         the same with train-llm-from-scratch's names
///   llmc         a .bin model of llm.c (versions 3 and 5)
/// `sets` ("model.n_head=12") say what a file leaves open. Names, shapes and variants are checked
/// before memory is taken; CheckpointError (file) or ConfigError (sets).
ImportedModel import_model(const std::filesystem::path& source,
                           ForeignFormat format,
                           const std::vector<std::string>& sets);

/// The tokenizer file beside foreign weights: tril_tokenizer.json, tokenizer.json, or a folder with
/// vocab.json and merges.txt (or encoder.json and vocab.bpe); nothing when there is none.
std::optional<std::filesystem::path> find_foreign_tokenizer(const std::filesystem::path& source);

}  // namespace tril
