// tril: trains, resumes, evaluates and runs a decoder-only GPT.
// Commands without tensors run here, without LibTorch: they start in 0.01 s and with 6 MB, where
// LibTorch alone takes 110 MB. For all others this becomes tril-tensors, which lies beside it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "prepare_peers.h"
#include "program.h"

namespace tril::cli {
namespace {

char** g_arguments = nullptr;

std::vector<CommandEntry> add_commands_without_tensors(CLI::App& app, CommonOptions& common) {
  return {add_tokenizer_command(app, common),
          add_prepare_command(app, common),
          add_corpus_command(app, common),
          add_config_command(app, common),
          add_report_command(app, common),
          add_launch_command(app, common)};
}

bool needs_no_tensors(std::string_view command) {
  CLI::App app;
  CommonOptions common;
  const auto commands = add_commands_without_tensors(app, common);
  return std::any_of(commands.begin(), commands.end(), [&](const CommandEntry& entry) {
    return entry.app->get_name() == command;
  });
}

/// How often a thread of OpenMP looks whether the others have come before it goes to sleep. GCC's
/// library looks 300 000 times, for milliseconds; where another program has one of the cores, the
/// thread that is looked for waits for just that time, in each of a step's many parallel loops.
/// Measured: docs/performance.md.
void let_waiting_threads_sleep() {
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "3000", /*overwrite=*/0);
}

/// Does not return where it can start it.
int become_tensor_program() {
  let_waiting_threads_sleep();
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = (self.parent_path() / "tril-tensors").string();
  if (!failed) execv(program.c_str(), g_arguments);
  const int reason = failed ? failed.value() : errno;
  std::fputs(fmt::format("error: {} cannot be started: {}. It belongs beside tril: install both\n",
                         program,
                         std::strerror(reason))
                 .c_str(),
             stderr);
  return kExitUsage;
}

}  // namespace

/// Several processes meet through LibTorch: the other program, from the start.
int prepare_with_peers(const World&,
                       const CommonOptions&,
                       const std::function<int(BlockExchange&)>&) {
  return become_tensor_program();
}

}  // namespace tril::cli

int main(int argc, char** argv) {
  using namespace tril::cli;
  g_arguments = argv;
  return argc > 1 && needs_no_tensors(argv[1])
             ? run_program(argc, argv, add_commands_without_tensors)
             : become_tensor_program();
}
