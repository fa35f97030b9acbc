// tril: trains, resumes, evaluates and runs a decoder-only GPT.
// Commands without tensors run here, without LibTorch: they start in a hundredth of a second and
// need a tenth of the memory. For all others this becomes tril-tensors, which lies beside it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "prepare_peers.h"
#include "program.h"

namespace tril::cli {
namespace {

constexpr std::string_view kHere[] = {
    "tokenizer", "prepare", "corpus", "config", "report", "launch"};

char** g_arguments = nullptr;

std::vector<CommandEntry> add_commands_without_tensors(CLI::App& app, CommonOptions& common) {
  return {add_tokenizer_command(app, common),
          add_prepare_command(app, common),
          add_corpus_command(app, common),
          add_config_command(app, common),
          add_report_command(app, common),
          add_launch_command(app, common)};
}

/// Does not return where it can start it.
int become_tensor_program() {
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
  const std::string_view command = argc > 1 ? argv[1] : "";
  const bool is_here = std::find(std::begin(kHere), std::end(kHere), command) != std::end(kHere);
  return is_here ? run_program(argc, argv, add_commands_without_tensors) : become_tensor_program();
}
