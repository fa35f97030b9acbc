// tril checkpoint: look at checkpoints and check them.

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.h"
#include "load_run.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/base/safetensors.h"
#include "tril/checkpoint/run_folder.h"

namespace tril::cli {
namespace {

int list_checkpoints(const std::string& run) {
  const RunFolder folder{std::filesystem::path(run)};
  const auto entries = folder.list();
  if (entries.empty()) {
    throw CheckpointError(fmt::format("{}: no complete checkpoint", run));
  }
  const CheckpointState newest = Checkpoint::open(entries.back().folder).state();
  for (const auto& entry : entries) {
    const CheckpointState state = Checkpoint::open(entry.folder).state();
    const bool evaluated_here = state.validation_loss && state.evaluated_step == state.step;
    print_out("step {:>9}  {}{}{}  {}\n",
              state.step,
              evaluated_here ? fmt::format("validation loss {:.4f}", *state.validation_loss)
                             : std::string("not evaluated         "),
              entry.step == newest.best_step ? "  best" : "      ",
              entry.step == newest.step ? "  latest" : "        ",
              entry.folder.string());
  }
  return 0;
}

int show_checkpoint(const RunArgument& argument) {
  const Checkpoint checkpoint = open_run_argument(argument.run, argument.checkpoint);
  const CheckpointState state = checkpoint.state();
  print_out("checkpoint        {}\n", checkpoint.folder().string());
  print_out("step              {}\n", state.step);
  print_out("windows, tokens   {}, {}\n", state.windows_seen, state.tokens_seen);
  if (state.validation_loss) {
    print_out(
        "validation loss   {:.4f} at step {}\n", *state.validation_loss, state.evaluated_step);
  }
  if (state.best_validation_loss) {
    print_out(
        "best              {:.4f} at step {}\n", *state.best_validation_loss, state.best_step);
  }
  print_out("resolved          {}, attention {}, {} threads\n",
            state.precision,
            state.attention,
            state.threads);
  for (const auto& file : checkpoint.files()) {
    print_out("file              {:<22} {:>12} bytes  xxh3 {}\n", file.name, file.bytes, file.xxh3);
  }
  const auto weights = SafetensorsFile::open(checkpoint.folder() / "model.safetensors");
  int64_t parameters = 0;
  for (const auto& tensor : weights.tensors()) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    parameters += count;
    print_out(
        "tensor            {:<44} {} {}\n", tensor.name, tensor.dtype, Json(tensor.shape).dump());
  }
  print_out("parameters        {}\n", parameters);
  print_out("config            {}\n", dump_json(checkpoint.config(), -1));
  return 0;
}

int verify_checkpoints(const RunArgument& argument, bool one) {
  std::vector<std::filesystem::path> folders;
  if (one || Checkpoint::is_complete(argument.run)) {
    folders.push_back(open_run_argument(argument.run, argument.checkpoint).folder());
  } else {
    for (const auto& entry : RunFolder(std::filesystem::path(argument.run)).list()) {
      folders.push_back(entry.folder);
    }
    if (folders.empty())
      throw CheckpointError(fmt::format("{}: no complete checkpoint", argument.run));
  }
  size_t n_damaged = 0;
  std::string first_fault;
  for (const auto& folder : folders) {
    std::vector<std::string> faults;
    try {
      faults = Checkpoint::open(folder).verify();
    } catch (const Error& error) {
      faults.emplace_back(error.what());
    }
    if (!faults.empty() && n_damaged++ == 0) first_fault = faults.front();
    print_out("{}  {}\n", faults.empty() ? "ok     " : "DAMAGED", folder.string());
    for (const auto& fault : faults) print_out("         {}\n", fault);
  }
  if (n_damaged > 0) {
    throw CheckpointError(fmt::format(
        "{} of {} checkpoints damaged; first: {}", n_damaged, folders.size(), first_fault));
  }
  return 0;
}

}  // namespace

CommandEntry add_checkpoint_command(CLI::App& app, CommonOptions&) {
  auto* command = app.add_subcommand("checkpoint", "List, show and verify checkpoints");
  command->require_subcommand(1);
  auto argument = std::make_shared<RunArgument>();
  auto* list = command->add_subcommand("list", "The complete checkpoints of a run");
  list->add_option("RUN", argument->run, "A run folder")->required();
  auto* show = command->add_subcommand("show", "What a checkpoint holds");
  add_run_argument(*show, *argument);
  auto* verify = command->add_subcommand(
      "verify",
      "Read every file and compare checksums: all checkpoints of a run, or the chosen one");
  add_run_argument(*verify, *argument);
  command->footer(R"(Examples:
  tril checkpoint list runs/quickstart
  tril checkpoint show runs/quickstart --checkpoint best
  tril checkpoint verify runs/quickstart)");
  return {command, [=] {
            if (list->parsed()) return list_checkpoints(argument->run);
            if (show->parsed()) return show_checkpoint(*argument);
            return verify_checkpoints(*argument, verify->count("--checkpoint") > 0);
          }};
}

}  // namespace tril::cli
