#include "program.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iostream>
#include <new>

#include "output.h"
#include "tril/base/error.h"
#include "tril/base/log.h"
#include "tril/train/stop_signal.h"
#include "version.h"

namespace tril::cli {
namespace {

constexpr const char* kDescription =
    R"(tril trains, resumes, evaluates and runs a decoder-only GPT.

A first session:
  tril train --config configs/quickstart.json     learn the bundled tales, about a minute
  tril generate runs/quickstart                   let the model tell one
  tril evaluate runs/quickstart                   how good is it?
Every command has its own help: tril train --help)";

int run_command(const Command& command,
                const CommonOptions& common,
                const ReportForeign& report_foreign) {
  try {
    return command();
  } catch (const Error& error) {
    // A job that polls signals ends with its own error; the exit code says which signal it was.
    const int exit_code =
        stop_signal() != 0 && error.exit_code() >= 128 ? 128 + stop_signal() : error.exit_code();
    return report_error(exit_code, error.what());
  } catch (const ClosedPipe&) {
    return 0;  // whoever read our output has seen enough
  } catch (const std::bad_alloc&) {
    return report_error(kExitResources, "out of memory: try a smaller train.batch_size or model");
  } catch (const std::exception& error) {
    return report_foreign(error, common.log_level == "debug" || common.log_level == "trace");
  }
}

}  // namespace

int report_error(int exit_code, const std::string& message) {
  spdlog::error("{}", message);
  return exit_code;
}

int report_bug(const std::exception& error, bool debug) {
  // LibTorch's messages end in a backtrace; the first line says what happened.
  const std::string text = error.what();
  return report_error(
      kExitBug,
      fmt::format("this is a bug in tril: {}", debug ? text : text.substr(0, text.find('\n'))));
}

int run_program(int argc,
                char** argv,
                const AddCommands& add_commands,
                const ReportForeign& report_foreign) {
  install_stop_handlers();
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

  const std::vector<CommandEntry> commands = add_commands(app, common);

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
    if (entry.app->parsed()) return run_command(entry.run, common, report_foreign);
  }
  return kExitUsage;
}

}  // namespace tril::cli
