#include "tril/interop/export_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/safetensors.h"
#include "tril/interop/foreign_tensors.h"
#include "tril/interop/gguf_writer.h"
#include "tril/interop/tokenizer_export.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

struct StoredType {
  const char* safetensors;
  const char* torch_name;  ///< as config.json calls it
  torch::ScalarType scalar;
};

StoredType stored_type(ExportType type) {
  switch (type) {
    case ExportType::kF32:
      return {"F32", "float32", torch::kFloat32};
    case ExportType::kF16:
      return {"F16", "float16", torch::kFloat16};
    case ExportType::kBf16:
      return {"BF16", "bfloat16", torch::kBFloat16};
    case ExportType::kQ8_0:
      break;
  }
  throw ConfigError("--dtype q8_0: the Hugging Face form has f32, f16 and bf16; q8_0 is GGUF's");
}

/// Half precision ends at 65504: a weight beyond it would become infinite without a word.
torch::Tensor convert(const torch::Tensor& values,
                      torch::ScalarType type,
                      const std::string& name) {
  torch::Tensor result = values.to(type);
  if (type == torch::kFloat16 && result.isfinite().ne(values.isfinite()).any().item<bool>()) {
    throw CheckpointError(
        fmt::format("{}: a value is too large for f16. Try --dtype bf16 or f32", name));
  }
  return result;
}

std::string bytes_of(const torch::Tensor& t) {
  return {static_cast<const char*>(t.const_data_ptr()), static_cast<size_t>(t.nbytes())};
}

/// The model as the plan describes it: the same one, or one with zero biases added.
GPT planned_model(const GPT& model, const ExportPlan& plan, ExportReport& report) {
  if (!plan.adds_zero_biases) return model;
  report.notices.emplace_back("biases that the model does not have are written as zeros");
  return with_config(model, plan.model);
}

/// The prefix that Hugging Face's classes put before all names but the head's.
std::string huggingface_name(const std::string& name, bool is_llama) {
  if (name.starts_with("lm_head.")) return name;
  return (is_llama ? "model." : "transformer.") + name;
}

void write_huggingface_files(const GPT& model,
                             const ExportPlan& plan,
                             const Tokenizer& tokenizer,
                             const fs::path& folder,
                             const StoredType& type) {
  const ParameterMap parameters = parameter_map(model);
  std::vector<torch::Tensor> kept;
  std::vector<TensorToWrite> tensors;
  for (const TensorRule& rule :
       tensor_rules(plan.is_llama ? Naming::kLlama : Naming::kHuggingFaceGpt2, plan.model)) {
    const torch::Tensor& t = kept.emplace_back(convert(
        foreign_tensor(rule, parameters, plan.model.vocab_size), type.scalar, rule.foreign));
    tensors.push_back(
        {huggingface_name(rule.foreign, plan.is_llama),
         type.safetensors,
         t.sizes().vec(),
         {static_cast<const std::byte*>(t.const_data_ptr()), static_cast<size_t>(t.nbytes())}});
  }
  write_safetensors(folder / "model.safetensors", std::move(tensors), {{"format", "pt"}});
  const auto write = [&](const std::string& name, const std::string& content) {
    FileWriter file(folder / name);
    file.write(content);
    file.finish();
  };
  write("config.json",
        dump_json(write_huggingface_config(plan, tokenizer.end_of_text(), type.torch_name)) + "\n");
  for (const TokenizerFile& file :
       huggingface_tokenizer_files(tokenizer, plan.model.context_length)) {
    write(file.name, file.content);
  }
}

/// What a GGUF file says about the model; keys are those of llama.cpp.
void add_gguf_config(GgufWriter& gguf, const ExportPlan& plan) {
  const ModelConfig& m = plan.model;
  const std::string architecture = plan.is_llama ? "llama" : "gpt2";
  const auto add = [&](const char* key, int64_t value) {
    gguf.add(architecture + "." + key, static_cast<uint32_t>(value));
  };
  add("context_length", m.context_length);
  add("embedding_length", m.n_embed);
  add("feed_forward_length", m.ffn_size());
  add("block_count", m.n_blocks);
  add("attention.head_count", m.n_head);
  if (plan.is_llama) {
    add("attention.head_count_kv", m.kv_heads());
    add("rope.dimension_count", m.head_size());
    add("vocab_size", m.vocab_size);
    gguf.add("llama.rope.freq_base", static_cast<float>(m.rope_base));
    gguf.add("llama.attention.layer_norm_rms_epsilon", static_cast<float>(m.norm_epsilon));
  } else {
    gguf.add("gpt2.attention.layer_norm_epsilon", static_cast<float>(m.norm_epsilon));
  }
}

void add_gguf_vocabulary(GgufWriter& gguf, const GgufVocabulary& vocabulary) {
  gguf.add("tokenizer.ggml.model", vocabulary.model);
  if (!vocabulary.pre.empty()) gguf.add("tokenizer.ggml.pre", vocabulary.pre);
  gguf.add("tokenizer.ggml.tokens", vocabulary.tokens);
  gguf.add("tokenizer.ggml.token_type", vocabulary.types);
  if (vocabulary.model == "gpt2") gguf.add("tokenizer.ggml.merges", vocabulary.merges);
  gguf.add("tokenizer.ggml.add_bos_token", false);
  if (vocabulary.end_of_text) {
    const auto id = static_cast<uint32_t>(*vocabulary.end_of_text);
    gguf.add("tokenizer.ggml.bos_token_id", id);
    gguf.add("tokenizer.ggml.eos_token_id", id);
  }
}

/// llama.cpp's number for what most tensors are.
uint32_t gguf_file_type(ExportType type) {
  switch (type) {
    case ExportType::kF32:
      return 0;
    case ExportType::kF16:
      return 1;
    case ExportType::kQ8_0:
      return 7;
    case ExportType::kBf16:
      break;
  }
  return 32;
}

GgmlType ggml_type(ExportType type, const std::vector<int64_t>& shape) {
  if (shape.size() < 2 || type == ExportType::kF32) return GgmlType::kF32;
  if (type == ExportType::kBf16) return GgmlType::kBF16;
  const bool has_blocks = shape.back() % kQ8BlockSize == 0;
  return type == ExportType::kQ8_0 && has_blocks ? GgmlType::kQ8_0 : GgmlType::kF16;
}

std::string gguf_bytes(const torch::Tensor& values, GgmlType type, const std::string& name) {
  switch (type) {
    case GgmlType::kF32:
      return bytes_of(values);
    case GgmlType::kF16:
      return bytes_of(convert(values, torch::kFloat16, name));
    case GgmlType::kBF16:
      return bytes_of(values.to(torch::kBFloat16));
    case GgmlType::kQ8_0:
      break;
  }
  return quantize_q8_0({values.const_data_ptr<float>(), static_cast<size_t>(values.numel())});
}

}  // namespace

ExportReport export_huggingface(const GPT& model,
                                const Tokenizer& tokenizer,
                                const fs::path& folder,
                                ExportType type) {
  ExportReport report;
  const StoredType stored = stored_type(type);
  const ExportPlan plan = plan_export(model->config(), ExportFormat::kHuggingFace);
  if (tokenizer.kind() == "char") {
    report.notices.emplace_back(
        "a character tokenizer: other programs will refuse text with any other character");
  }
  const GPT planned = planned_model(model, plan, report);
  const fs::path temporary = temporary_sibling(folder);
  std::error_code error;
  try {
    fs::create_directories(temporary, error);
    if (error) {
      throw ResourceError(
          fmt::format("cannot make the folder {}: {}", temporary.string(), error.message()));
    }
    write_huggingface_files(planned, plan, tokenizer, temporary, stored);
    fsync_folder(temporary);
    fs::rename(temporary, folder, error);
    if (error) {
      throw ResourceError(fmt::format(
          "cannot rename {} to {}: {}", temporary.string(), folder.string(), error.message()));
    }
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  return report;
}

ExportReport export_gguf(const GPT& model,
                         const Tokenizer& tokenizer,
                         const fs::path& path,
                         ExportType type,
                         const std::string& name) {
  ExportReport report;
  const ExportPlan plan = plan_export(model->config(), ExportFormat::kGguf);
  const GPT planned = planned_model(model, plan, report);
  const ParameterMap parameters = parameter_map(planned);

  GgufWriter gguf;
  gguf.add("general.architecture", plan.is_llama ? "llama" : "gpt2");
  gguf.add("general.name", name);
  gguf.add("general.file_type", gguf_file_type(type));
  add_gguf_config(gguf, plan);
  add_gguf_vocabulary(gguf, gguf_vocabulary(tokenizer, plan.model.vocab_size));
  int64_t n_without_blocks = 0;
  for (const TensorRule& rule :
       tensor_rules(plan.is_llama ? Naming::kGgufLlama : Naming::kGgufGpt2, plan.model)) {
    const std::vector<int64_t> shape =
        foreign_tensor(rule, parameters, plan.model.vocab_size).sizes().vec();
    const GgmlType stored = ggml_type(type, shape);
    if (type == ExportType::kQ8_0 && stored == GgmlType::kF16) ++n_without_blocks;
    gguf.add_tensor(rule.foreign, shape, stored, [&parameters, &plan, rule, stored] {
      return gguf_bytes(
          foreign_tensor(rule, parameters, plan.model.vocab_size), stored, rule.foreign);
    });
  }
  if (n_without_blocks > 0) {
    report.notices.push_back(
        fmt::format("{} matrices have rows that are no multiple of {}: stored as f16, not q8_0",
                    n_without_blocks,
                    kQ8BlockSize));
  }
  gguf.write(path);
  return report;
}

}  // namespace tril
