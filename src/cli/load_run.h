#pragma once
// A trained model, ready to use: what generate, evaluate and the like have in common.

#include <memory>
#include <string>

#include "commands.h"
#include "tril/checkpoint/checkpoint.h"
#include "tril/config/run_config.h"
#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril::cli {

/// RUN and --checkpoint of a command.
struct RunArgument {
  std::string run;
  std::string checkpoint = "latest";
};

void add_run_argument(CLI::App& command, RunArgument& argument);

struct LoadedRun {
  Checkpoint checkpoint;
  CheckpointState state;
  RunConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  GPT model{nullptr};
};

/// Opens the checkpoint, sets device and threads, builds the model and loads its weights.
LoadedRun load_run(const RunArgument& argument, const CommonOptions& common);

/// The stored config of a checkpoint. A config that cannot be read is the checkpoint's fault.
RunConfig stored_config(const Checkpoint& checkpoint);

}  // namespace tril::cli
