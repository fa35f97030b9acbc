#include "tril/interop/import_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"
#include "tril/config/run_config.h"
#include "tril/interop/foreign_tensors.h"
#include "tril/interop/huggingface_config.h"
#include "tril/interop/llmc.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConvert =
    "convert it once with scripts/convert_pt.py FILE --out FILE.safetensors (needs PyTorch)";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

ModelConfig apply_sets(const ModelConfig& model, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (!set.starts_with("model.")) {
      throw ConfigError(fmt::format(
          "--set {}: an import takes keys of the model only, such as --set model.n_head=12", set));
    }
  }
  RunConfig config;
  config.model = model;
  return override_run_config(config, sets).model;
}

/// Adds the files of a Hugging Face folder: one, or the shards that the index names.
void add_huggingface_files(const fs::path& folder, ForeignTensors& tensors) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_file(single)) {
    tensors.add_file(single);
    return;
  }
  if (!is_file(index)) {
    const bool has_pickle = is_file(folder / "pytorch_model.bin");
    throw CheckpointError(
        fmt::format("{}: there is no model.safetensors{}",
                    folder.string(),
                    has_pickle ? fmt::format(", but a pytorch_model.bin: a Python pickle, which is "
                                             "never loaded; {}",
                                             kConvert)
                               : " and no model.safetensors.index.json"));
  }
  const Json json = read_json_file(index, FileRole::kCheckpoint);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) {
    throw CheckpointError(
        fmt::format("{}: expected an object with a \"weight_map\"", index.string()));
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    // Only files of this very folder.
    if (name.empty() || name != fs::path(name).filename().string() || name == "..") {
      throw CheckpointError(
          fmt::format("{}: weight_map: \"{}\" is in \"{}\", which is no file name",
                      index.string(),
                      escape_for_message(tensor),
                      escape_for_message(name)));
    }
    names.insert(name);
  }
  for (const std::string& name : names) tensors.add_file(folder / name);
}

/// Decides about an output head that a file holds beside the embedding. Files of tied models may
/// hold the matrix twice.
void resolve_head(const std::string& embedding_name,
                  const ForeignTensors& tensors,
                  ModelConfig& model,
                  std::vector<std::string>& notices) {
  const auto* head = tensors.find("lm_head.weight");
  const auto* embedding = tensors.find(embedding_name);
  if (head == nullptr || embedding == nullptr) return;  // the names are checked later
  const bool equal = ForeignTensors::equal(*head, *embedding);
  if (!equal && model.tie_embeddings) {
    notices.emplace_back(
        "lm_head.weight differs from the embedding although the config ties them: kept apart");
    model.tie_embeddings = false;
  }
}

ImportedModel import_huggingface(const fs::path& folder, const std::vector<std::string>& sets) {
  const fs::path config_path = folder / "config.json";
  if (!is_file(config_path)) {
    throw CheckpointError(fmt::format("{}: there is no config.json: expected a Hugging Face folder",
                                      folder.string()));
  }
  ForeignConfig foreign = read_huggingface_config(
      read_json_file(config_path, FileRole::kCheckpoint), config_path.string());
  ForeignTensors tensors;
  add_huggingface_files(folder, tensors);
  resolve_head(foreign.is_llama ? "embed_tokens.weight" : "wte.weight",
               tensors,
               foreign.model,
               foreign.notices);
  const ModelConfig model = apply_sets(foreign.model, sets);
  if (model.tie_embeddings) tensors.remove("lm_head.weight");
  return {.model = build_model(model,
                               foreign.is_llama ? Naming::kLlama : Naming::kHuggingFaceGpt2,
                               tensors,
                               folder.string()),
          .format = ForeignFormat::kHuggingFace,
          .notices = std::move(foreign.notices)};
}

/// How many numbered parts a prefix has: 1 + the highest N in "prefixN.".
int64_t count_numbered(const ForeignTensors& tensors, std::string_view prefix) {
  int64_t count = 0;
  for (const auto& [name, entry] : tensors.entries()) {
    if (!name.starts_with(prefix)) continue;
    const char* begin = name.data() + prefix.size();
    const char* end = name.data() + name.size();
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && rest != end && *rest == '.' && number >= 0 && number < (1 << 16)) {
      count = std::max(count, number + 1);
    }
  }
  return count;
}

/// The shape of a tensor that says how large the model is.
const std::vector<int64_t>& matrix_shape(const ForeignTensors& tensors,
                                         const std::string& name,
                                         const std::string& origin) {
  const auto* entry = tensors.find(name);
  if (entry == nullptr || entry->shape.size() != 2 || entry->shape[0] < 1 || entry->shape[1] < 1) {
    throw CheckpointError(fmt::format("{}: {} {}: the model's sizes are read from it",
                                      origin,
                                      name,
                                      entry == nullptr ? "is missing" : "is no matrix"));
  }
  return entry->shape;
}

bool is_set(const std::vector<std::string>& sets, std::string_view key) {
  return std::any_of(sets.begin(), sets.end(), [&](const std::string& set) {
    return set.starts_with(key) && set.size() > key.size() && set[key.size()] == '=';
  });
}

/// n_head is in no shape: scripts/convert_pt.py stores nanoGPT's model_args as metadata.
int64_t head_count(const ForeignTensors& tensors,
                   const std::vector<std::string>& sets,
                   const std::string& origin) {
  if (is_set(sets, "model.n_head")) return 1;  // replaced by the setting
  const auto found = tensors.metadata().find("model_args");
  if (found != tensors.metadata().end()) {
    const Json args = parse_json(found->second, origin + " (model_args)", FileRole::kCheckpoint);
    if (args.is_object() && args.contains("n_head") && args["n_head"].is_number_integer()) {
      const auto n = args["n_head"].get<int64_t>();
      if (n >= 1 && n <= (1 << 16)) return n;
    }
  }
  throw CheckpointError(fmt::format(
      "{}: nothing in it says how many heads the model has. Give --set model.n_head=N", origin));
}

ImportedModel import_nanogpt(ForeignTensors tensors,
                             const std::vector<std::string>& sets,
                             const std::string& origin) {
  ModelConfig model = model_preset(Preset::kGpt2);
  const auto& wte = matrix_shape(tensors, "wte.weight", origin);
  model.vocab_size = wte[0];
  model.n_embed = wte[1];
  model.context_length = matrix_shape(tensors, "wpe.weight", origin)[0];
  model.n_blocks = count_numbered(tensors, "h.");
  model.ffn_width = matrix_shape(tensors, "h.0.mlp.c_fc.weight", origin)[0];
  model.n_head = head_count(tensors, sets, origin);
  model.activation = Activation::kGelu;
  model.bias = tensors.find("h.0.mlp.c_fc.bias") != nullptr;
  model.qkv_bias = tensors.find("h.0.attn.c_attn.bias") != nullptr;
  ImportedModel result;
  result.format = ForeignFormat::kNanoGpt;
  resolve_head("wte.weight", tensors, model, result.notices);
  model = apply_sets(model, sets);
  if (!is_set(sets, "model.activation")) {
    result.notices.emplace_back(
        "activation is gelu, as nanoGPT has it; weights that came from GPT-2 want "
        "--set model.activation=gelu_tanh");
  }
  if (model.tie_embeddings) tensors.remove("lm_head.weight");
  result.model = build_model(model, Naming::kNanoGpt, tensors, origin);
  return result;
}

ImportedModel import_tlfs(const ForeignTensors& tensors,
                          const std::vector<std::string>& sets,
                          const std::string& origin) {
  ModelConfig model = model_preset(Preset::kClassic);
  const auto& embedding = matrix_shape(tensors, "token_embed.weight", origin);
  model.vocab_size = embedding[0];
  model.n_embed = embedding[1];
  model.context_length = matrix_shape(tensors, "position_embed.weight", origin)[0];
  model.n_blocks = count_numbered(tensors, "attn_blocks.");
  model.n_head = count_numbered(tensors, "attn_blocks.0.attn.heads.");
  model.ffn_width = matrix_shape(tensors, "attn_blocks.0.mlp.hidden.weight", origin)[0];
  if (model.n_head < 1) {
    throw CheckpointError(origin + ": attn_blocks.0.attn.heads.0.query.weight is missing");
  }
  model = apply_sets(model, sets);
  return {.model = build_model(model, Naming::kTlfs, tensors, origin),
          .format = ForeignFormat::kTlfs,
          .notices = {}};
}

ImportedModel import_safetensors(const fs::path& path,
                                 ForeignFormat format,
                                 const std::vector<std::string>& sets) {
  ForeignTensors tensors;
  tensors.add_file(path);
  if (format == ForeignFormat::kAuto) {
    format = tensors.find("token_embed.weight") != nullptr ? ForeignFormat::kTlfs
             : tensors.find("wte.weight") != nullptr       ? ForeignFormat::kNanoGpt
                                                           : ForeignFormat::kAuto;
  }
  if (format == ForeignFormat::kTlfs) return import_tlfs(tensors, sets, path.string());
  if (format == ForeignFormat::kNanoGpt) {
    return import_nanogpt(std::move(tensors), sets, path.string());
  }
  throw CheckpointError(fmt::format(
      "{}: its tensor names are neither nanoGPT's (wte.weight) nor train-llm-from-scratch's "
      "(token_embed.weight). For a Hugging Face model give its folder",
      path.string()));
}

ImportedModel import_llmc(const fs::path& path, const std::vector<std::string>& sets) {
  auto file = std::make_shared<MappedFile>(path, FileRole::kCheckpoint);
  const LlmcModel llmc = read_llmc_model(file->bytes(), path.string());
  ForeignTensors tensors;
  for (const LlmcTensor& t : llmc.tensors) {
    tensors.add({t.name,
                 t.name,
                 llmc.dtype,
                 t.shape,
                 file->bytes().subspan(static_cast<size_t>(t.begin), static_cast<size_t>(t.bytes))},
                file);
  }
  return {
      .model = build_model(apply_sets(llmc.config, sets), Naming::kNanoGpt, tensors, path.string()),
      .format = ForeignFormat::kLlmc,
      .notices = {}};
}

}  // namespace

ImportedModel import_model(const fs::path& source,
                           ForeignFormat format,
                           const std::vector<std::string>& sets) {
  std::error_code ignored;
  if (!fs::exists(source, ignored)) {
    throw CheckpointError(fmt::format("{}: there is no such file or folder", source.string()));
  }
  if (fs::is_directory(source, ignored)) {
    if (format == ForeignFormat::kAuto || format == ForeignFormat::kHuggingFace) {
      return import_huggingface(source, sets);
    }
    throw CheckpointError(
        fmt::format("{}: a folder; expected a {} file", source.string(), enum_name(format)));
  }
  if (format == ForeignFormat::kHuggingFace) {
    throw CheckpointError(fmt::format(
        "{}: a file; expected a folder with config.json and model.safetensors", source.string()));
  }
  const bool is_llmc = is_llmc_model(MappedFile(source, FileRole::kCheckpoint).bytes());
  if (format == ForeignFormat::kLlmc || (format == ForeignFormat::kAuto && is_llmc)) {
    return import_llmc(source, sets);
  }
  return import_safetensors(source, format, sets);
}

std::optional<fs::path> find_foreign_tokenizer(const fs::path& source) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(source, ignored) ? source : source.parent_path();
  for (const char* name : {"tril_tokenizer.json", "tokenizer.json"}) {
    if (is_file(folder / name)) return folder / name;
  }
  if (is_file(folder / "vocab.json") && is_file(folder / "merges.txt")) return folder;
  if (is_file(folder / "encoder.json") && is_file(folder / "vocab.bpe")) return folder;
  return std::nullopt;
}

}  // namespace tril
