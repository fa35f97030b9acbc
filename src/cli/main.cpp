// tril: trains, resumes, evaluates and runs a decoder-only GPT.
// This file parses the command line, runs the chosen command, and turns errors into exit codes.

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <vector>

#include "commands.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/log.h"
#include "tril/model/cpu_allocator.h"
#include "tril/train/stop_signal.h"
#include "version.h"

namespace tril::cli {
namespace {

constexpr int kExitBug = 1;
constexpr int kExitUsage = 2;
constexpr int kExitResources = 6;

constexpr const char* kDescription =
    R"(tril trains, resumes, evaluates and runs a decoder-only GPT.

A first session:
  tril train --config configs/quickstart.json     learn the bundled tales, about a minute
  tril generate runs/quickstart                   let the model tell one
  tril evaluate runs/quickstart                   how good is it?
Every command has its own help: tril train --help)";

int report(int exit_code, const std::string& message) {
  spdlog::error("{}", message);
  return exit_code;
}

/// LibTorch reports a lack of CPU memory as a plain error.
bool is_out_of_memory(const std::string& what) {
  return what.find("DefaultCPUAllocator") != std::string::npos ||
         what.find("not enough memory") != std::string::npos;
}

/// LibTorch's messages end in a backtrace; the first line says what happened.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int run_command(const Command& command, const CommonOptions& common) {
  const bool debug = common.log_level == "debug" || common.log_level == "trace";
  try {
    return command();
  } catch (const Error& error) {
    // A job that polls signals ends with its own error; the exit code says which signal it was.
    const int exit_code =
        stop_signal() != 0 && error.exit_code() >= 128 ? 128 + stop_signal() : error.exit_code();
    return report(exit_code, error.what());
  } catch (const ClosedPipe&) {
    return 0;  // whoever read our output has seen enough
  } catch (const std::bad_alloc&) {
    return report(kExitResources, "out of memory: try a smaller train.batch_size or model");
  } catch (const c10::OutOfMemoryError& error) {
    return report(kExitResources,
                  fmt::format("out of device memory: {}", first_line(error.what())));
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error.what())) {
      return report(kExitResources, "out of memory: try a smaller train.batch_size or model");
    }
    return report(
        kExitBug,
        fmt::format("this is a bug in tril: {}", debug ? error.what() : first_line(error.what())));
  } catch (const std::exception& error) {
    return report(
        kExitBug,
        fmt::format("this is a bug in tril: {}", debug ? error.what() : first_line(error.what())));
  }
}

int run(int argc, char** argv) {
  install_stop_handlers();
  // Denormals cost a hundred times as much and mean nothing here. Per thread: set before any
  // worker.
  at::globalContext().setFlushDenormal(true);
  use_caching_cpu_allocator();

  CLI::App app{kDescription};
  app.set_version_flag("--version", version_text(), "Print versions of tril and LibTorch");
  app.require_subcommand(1);
  app.fallthrough();
  CommonOptions common;
  app.add_option("--device", common.device, "Where to compute: auto, cpu, cuda or cuda:N");
  app.add_option("--threads", common.threads, "CPU threads; 0: by the machine's cores");
  app.add_option("--log-level", common.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--quiet", common.quiet, "Only warnings and errors");

  const std::vector<CommandEntry> commands = {add_train_command(app, common),
                                              add_launch_command(app, common),
                                              add_generate_command(app, common),
                                              add_evaluate_command(app, common),
                                              add_prepare_command(app, common),
                                              add_tokenizer_command(app, common),
                                              add_inspect_command(app, common),
                                              add_report_command(app, common),
                                              add_checkpoint_command(app, common),
                                              add_config_command(app, common),
                                              add_corpus_command(app, common),
                                              add_import_command(app, common),
                                              add_export_command(app, common),
                                              add_bench_command(app, common),
                                              add_doctor_command(app, common)};

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    // Of a misspelt command, CLI11 would only say that a subcommand is missing.
    const std::string first = argc > 1 ? argv[1] : "";
    const bool is_unknown =
        !first.empty() && first.front() != '-' &&
        std::none_of(commands.begin(), commands.end(), [&](const CommandEntry& entry) {
          return entry.app->get_name() == first;
        });
    std::cerr << "error: "
              << (is_unknown ? fmt::format("there is no command '{}'", first) : error.what())
              << "\nTry tril --help, or tril COMMAND --help.\n";
    return kExitUsage;
  }

  try {
    init_logging(common.quiet ? "warn" : common.log_level);
  } catch (const Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exit_code();
  }
  for (const CommandEntry& entry : commands) {
    if (entry.app->parsed()) return run_command(entry.run, common);
  }
  return kExitUsage;
}

}  // namespace
}  // namespace tril::cli

int main(int argc, char** argv) {
  return tril::cli::run(argc, argv);
}
