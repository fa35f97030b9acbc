// tril import: foreign weights become a run folder of ours.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <map>
#include <memory>

#include "commands.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/checkpoint/checkpoint.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/config/run_config.h"
#include "tril/interop/import_model.h"
#include "tril/tokenizer/tokenizer.h"
#include "tril/train/progress.h"

namespace tril::cli {
namespace fs = std::filesystem;
namespace {

struct ImportArguments {
  std::string source;
  std::string out;
  ForeignFormat format = ForeignFormat::kAuto;
  std::string tokenizer;
  std::vector<std::string> sets;
  bool overwrite = false;
};

/// The tokenizer that belongs to the weights: named, or beside them.
std::unique_ptr<Tokenizer> open_tokenizer(const ImportArguments& args) {
  if (!args.tokenizer.empty()) return make_tokenizer(args.tokenizer);
  const auto found = find_foreign_tokenizer(args.source);
  if (!found) {
    throw DataError(fmt::format(
        "{}: there is no tokenizer beside it (tokenizer.json, or vocab.json with merges.txt). Name "
        "the one the model was trained with: --tokenizer NAME|FILE",
        args.source));
  }
  return make_tokenizer(found->string());
}

int import_weights(const ImportArguments& args) {
  RunFolder folder(fs::absolute(args.out));
  if (folder.has_run() && !args.overwrite) {
    throw ConfigError(
        fmt::format("{} already holds a run. Replace it: --overwrite. Or choose another --out",
                    folder.root().string()));
  }
  ImportedModel imported = import_model(args.source, args.format, args.sets);
  const auto tokenizer = open_tokenizer(args);
  RunConfig config;
  config.run_dir = folder.root().string();
  config.model = imported.model->config();
  config.data.validation_fraction = 0;  // there is no text of its own
  if (tokenizer->vocab_size() > config.model.vocab_size) {
    throw DataError(fmt::format(
        "the tokenizer has {} ids, the model only {}: it is not the one the model was trained with",
        tokenizer->vocab_size(),
        config.model.vocab_size));
  }
  validate(config, "imported model");

  folder.create_and_lock();
  if (args.overwrite) folder.remove_run_files();
  const OrderedJson config_json = to_json(config);
  const OrderedJson tokenizer_json = tokenizer->to_json();
  CheckpointState state;
  state.precision = "fp32";
  state.attention = enum_name(config.model.attention);
  save_checkpoint(folder.checkpoint_folder(0),
                  {.parameters = unique_parameters(*imported.model),
                   .optimizer = {},
                   .state = state,
                   .config = config_json,
                   .tokenizer = tokenizer_json});
  write_file_atomically(folder.config_path(), dump_json(config_json) + "\n");
  write_file_atomically(folder.tokenizer_path(), dump_json(tokenizer_json) + "\n");

  for (const std::string& notice : imported.notices) spdlog::info("{}", notice);
  const ModelConfig& m = config.model;
  spdlog::info(
      "imported {} parameters ({}): {} blocks, {} heads of {}, width {}, context {}, vocabulary "
      "{}, "
      "tokenizer {} of {} ids",
      format_count(static_cast<double>(parameter_count(m))),
      enum_name(imported.format),
      m.n_blocks,
      m.n_head,
      m.head_size(),
      m.n_embed,
      m.context_length,
      m.vocab_size,
      tokenizer->kind(),
      tokenizer->vocab_size());
  spdlog::info("Try: tril generate {0}, or train on: tril train --config FILE --set init_from={0}",
               args.out);
  return 0;
}

}  // namespace

CommandEntry add_import_command(CLI::App& app, CommonOptions& /*common*/) {
  auto* command = app.add_subcommand("import", "Make a run folder from another program's weights");
  auto args = std::make_shared<ImportArguments>();
  command
      ->add_option("SOURCE", args->source, "A Hugging Face folder, a .safetensors or a .bin file")
      ->required();
  command->add_option("--out", args->out, "The run folder to make")->required();
  std::map<std::string, ForeignFormat> formats;
  for (const auto& [value, name] : kForeignFormatNames) formats.emplace(name, value);
  command->add_option("--format", args->format, "What SOURCE is (default: found out)")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("auto|huggingface|nanogpt|tlfs|llmc");
  command->add_option(
      "--tokenizer", args->tokenizer, "NAME or FILE (default: the tokenizer beside SOURCE)");
  command
      ->add_option("--set",
                   args->sets,
                   "What SOURCE leaves open, for example --set model.n_head=12 for nanoGPT")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--overwrite", args->overwrite, "Replace a run that is there");
  command->footer(
      R"(Python's .pt and .bin files are never loaded: scripts/convert_pt.py makes .safetensors of them.
Examples:
  tril import gpt2/ --out runs/gpt2
  tril import ckpt.safetensors --out runs/nano --tokenizer gpt2
  tril import gpt2_124M.bin --out runs/llmc --tokenizer gpt2)");
  return {command, [args] { return import_weights(*args); }};
}

}  // namespace tril::cli
