// tril launch: several processes that do one job, on this machine.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "tril/base/error.h"
#include "tril/distributed/launcher.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct LaunchArguments {
  int64_t n_processes = 0;
  std::vector<std::string> command;
};

int launch_processes(const LaunchArguments& args) {
  const std::string first = args.command.empty() ? "" : args.command.front();
  if (first != "train" && first != "bench" && first != "prepare") {
    throw ConfigError(fmt::format(
        "tril launch starts processes of `tril train`, `tril prepare` or `tril bench`; found {}. "
        "For "
        "example: tril launch --nproc 2 -- train --config configs/quickstart.json",
        args.command.empty() ? "no command" : fmt::format("'{}'", args.command.front())));
  }
  return launch({.program = std::filesystem::read_symlink("/proc/self/exe").string(),
                 .arguments = args.command,
                 .n_processes = args.n_processes,
                 .stop_signal = [] { return stop_signal(); }});
}

}  // namespace

CommandEntry add_launch_command(CLI::App& app, CommonOptions&) {
  auto* command =
      app.add_subcommand("launch", "Train one model with several processes on this machine");
  auto args = std::make_shared<LaunchArguments>();
  command->add_option("--nproc", args->n_processes, "How many processes")
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  // What follows -- is the processes' own; required, or CLI11 would give it to the parent.
  command
      ->add_option("command", args->command, "train, prepare or bench with its options, after --")
      ->required();
  command->footer(
      R"(The processes share the windows of each batch (train.batch_size), so the result is that of
one process, but for rounding. Each gets its share of the machine's cores, or --threads. On several
machines use torchrun, srun or mpirun (docs/scaling.md).
Examples:
  tril launch --nproc 2 -- train --config configs/quickstart.json
  tril launch --nproc 4 -- train --config configs/gpt2_124m.json --resume=auto --set distributed.shard=optimizer)");
  return {command, [args] { return launch_processes(*args); }};
}

}  // namespace tril::cli
