// tril export: a trained model in a form that other programs open.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <map>
#include <memory>

#include "commands.h"
#include "load_run.h"
#include "tril/base/error.h"
#include "tril/interop/export_model.h"

namespace tril::cli {
namespace fs = std::filesystem;
namespace {

struct ExportArguments {
  RunArgument run;
  std::string out;
  ExportFormat format = ExportFormat::kHuggingFace;
  ExportType type = ExportType::kF32;
  bool overwrite = false;
};

/// True for a folder of a former export, which --overwrite may remove.
bool is_exported_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / "config.json", ignored) &&
         fs::is_regular_file(path / "model.safetensors", ignored) &&
         !fs::exists(path / "manifest.json", ignored);
}

void require_free(const ExportArguments& args, const fs::path& out) {
  std::error_code ignored;
  if (!fs::exists(out, ignored)) return;
  if (!args.overwrite) {
    throw ConfigError(fmt::format(
        "{} is there already. Replace it: --overwrite. Or choose another --out", out.string()));
  }
  const bool ours = args.format == ExportFormat::kGguf ? fs::is_regular_file(out, ignored)
                                                       : is_exported_folder(out);
  if (!ours) {
    throw ConfigError(
        fmt::format("{} is no former export: it stays. Choose another --out", out.string()));
  }
}

int export_run(const ExportArguments& args, const CommonOptions& common) {
  const fs::path out = fs::absolute(args.out).lexically_normal();
  require_free(args, out);
  CommonOptions on_cpu = common;
  on_cpu.device = "cpu";
  const LoadedRun run = load_run(args.run, on_cpu);
  plan_export(run.config.model, args.format);  // refuses before anything is removed
  ExportReport report;
  if (args.format == ExportFormat::kGguf) {
    const std::string name = fs::path(run.config.run_dir).filename().string();
    report = export_gguf(run.model, *run.tokenizer, out, args.type, name);
  } else {
    std::error_code ignored;
    if (args.overwrite) fs::remove_all(out, ignored);
    report = export_huggingface(run.model, *run.tokenizer, out, args.type);
  }
  for (const std::string& notice : report.notices) spdlog::info("{}", notice);
  spdlog::info("exported step {} to {} ({}, {})",
               run.state.step,
               out.string(),
               enum_name(args.format),
               enum_name(args.type));
  return 0;
}

}  // namespace

CommandEntry add_export_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("export", "Write a trained model for other programs");
  auto args = std::make_shared<ExportArguments>();
  add_run_argument(*command, args->run);
  command->add_option("--out", args->out, "The folder (huggingface) or file (gguf) to write")
      ->required();
  std::map<std::string, ExportFormat> formats;
  for (const auto& [value, name] : kExportFormatNames) formats.emplace(name, value);
  command->add_option("--format", args->format, "huggingface (default) or gguf")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("huggingface|gguf");
  std::map<std::string, ExportType> types;
  for (const auto& [value, name] : kExportTypeNames) types.emplace(name, value);
  command
      ->add_option("--dtype", args->type, "How matrices are stored: f32 (default); q8_0: GGUF only")
      ->transform(CLI::CheckedTransformer(types))
      ->type_name("f32|f16|bf16|q8_0");
  command->add_flag("--overwrite", args->overwrite, "Replace a former export");
  command->footer(R"(docs/interop.md says which variants of the model fit which format.
Examples:
  tril export runs/a --out exported/a
  tril export runs/a --out a.gguf --format gguf --dtype q8_0)");
  return {command, [args, &common] { return export_run(*args, common); }};
}

}  // namespace tril::cli
