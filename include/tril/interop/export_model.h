#pragma once
// Our weights out: a Hugging Face folder, or a GGUF file.

#include <filesystem>
#include <string>
#include <vector>

#include "tril/config/field.h"
#include "tril/interop/huggingface_config.h"
#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// How matrices are stored; vectors of a GGUF file are always f32.
enum class ExportType { kF32, kF16, kBf16, kQ8_0 };

inline constexpr EnumName<ExportFormat> kExportFormatNames[] = {
    {ExportFormat::kHuggingFace, "huggingface"},
    {ExportFormat::kGguf, "gguf"},
};
inline constexpr EnumName<ExportType> kExportTypeNames[] = {
    {ExportType::kF32, "f32"},
    {ExportType::kF16, "f16"},
    {ExportType::kBf16, "bf16"},
    {ExportType::kQ8_0, "q8_0"},
};
constexpr std::span<const EnumName<ExportFormat>> enum_names(ExportFormat) {
  return kExportFormatNames;
}
constexpr std::span<const EnumName<ExportType>> enum_names(ExportType) {
  return kExportTypeNames;
}

struct ExportReport {
  std::vector<std::string> notices;  ///< what the form of the file added or changed
};

/// Writes a folder with config.json, model.safetensors and the tokenizer's files, beside `folder`
/// and then in its place. ConfigError when the model does not fit (plan_export) or the type is
/// q8_0; CheckpointError when a value is too large for f16. Equal models give equal bytes.
ExportReport export_huggingface(const GPT& model,
                                const Tokenizer& tokenizer,
                                const std::filesystem::path& folder,
                                ExportType type);

/// Writes one GGUF file with weights, sizes and vocabulary. A matrix whose rows are no multiple of
/// 32 is stored as f16 where q8_0 is asked for.
ExportReport export_gguf(const GPT& model,
                         const Tokenizer& tokenizer,
                         const std::filesystem::path& path,
                         ExportType type,
                         const std::string& name);

}  // namespace tril
