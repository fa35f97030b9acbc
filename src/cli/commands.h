#pragma once
// One function per subcommand: it adds the subcommand's options to the app and returns what to run
// when it is chosen. `cli` is the only place that parses arguments, picks the device, sets threads,
// wires objects together and turns errors into exit codes.

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tril::cli {

/// Options every command has.
struct CommonOptions {
  std::optional<std::string> device;  ///< auto, cpu, cuda, cuda:N; not given: the config's
  std::optional<int64_t> threads;     ///< 0: chosen by the machine's cores; not given: the config's
  std::string log_level = "info";
  bool quiet = false;
};

/// The exit code of a finished command; errors are thrown.
using Command = std::function<int()>;

struct CommandEntry {
  CLI::App* app;
  Command run;
};

CommandEntry add_train_command(CLI::App& app, CommonOptions& common);
CommandEntry add_launch_command(CLI::App& app, CommonOptions& common);
CommandEntry add_generate_command(CLI::App& app, CommonOptions& common);
CommandEntry add_evaluate_command(CLI::App& app, CommonOptions& common);
CommandEntry add_prepare_command(CLI::App& app, CommonOptions& common);
CommandEntry add_tokenizer_command(CLI::App& app, CommonOptions& common);
CommandEntry add_inspect_command(CLI::App& app, CommonOptions& common);
CommandEntry add_report_command(CLI::App& app, CommonOptions& common);
CommandEntry add_checkpoint_command(CLI::App& app, CommonOptions& common);
CommandEntry add_config_command(CLI::App& app, CommonOptions& common);
CommandEntry add_corpus_command(CLI::App& app, CommonOptions& common);
CommandEntry add_import_command(CLI::App& app, CommonOptions& common);
CommandEntry add_export_command(CLI::App& app, CommonOptions& common);
CommandEntry add_bench_command(CLI::App& app, CommonOptions& common);
CommandEntry add_doctor_command(CLI::App& app, CommonOptions& common);

}  // namespace tril::cli
