#include "load_run.h"

#include <fmt/format.h>

#include "device.h"
#include "tril/base/error.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/optim/parameters.h"

namespace tril::cli {

void add_run_argument(CLI::App& command, RunArgument& argument) {
  command.add_option("RUN", argument.run, "A run folder, or one checkpoint folder")->required();
  command.add_option("--checkpoint", argument.checkpoint, "Which one of a run")
      ->type_name("latest|best|STEP")
      ->capture_default_str();
}

RunConfig stored_config(const Checkpoint& checkpoint) {
  const std::string origin = (checkpoint.folder() / "config.json").string();
  try {
    return run_config_from_json(checkpoint.config(), origin);
  } catch (const ConfigError& error) {
    throw CheckpointError(error.what());
  }
}

LoadedRun load_run(const RunArgument& argument, const CommonOptions& common) {
  Checkpoint checkpoint = open_run_argument(argument.run, argument.checkpoint);
  RunConfig config = stored_config(checkpoint);
  CheckpointState state = checkpoint.state();
  std::shared_ptr<const Tokenizer> tokenizer = tokenizer_from_json(
      checkpoint.tokenizer(), (checkpoint.folder() / "tokenizer.json").string());
  if (config.model.vocab_size < tokenizer->vocab_size()) {
    throw CheckpointError(fmt::format("{}: model.vocab_size {} is below the tokenizer's {} ids",
                                      checkpoint.folder().string(),
                                      config.model.vocab_size,
                                      tokenizer->vocab_size()));
  }
  set_threads(common.threads.value_or(0));
  const c10::Device device = choose_device(common.device.value_or("auto"));
  GPT model(config.model);
  checkpoint.load_parameters(unique_parameters(*model));
  model->to(device);
  model->eval();
  return {std::move(checkpoint),
          std::move(state),
          std::move(config),
          std::move(tokenizer),
          std::move(model)};
}

}  // namespace tril::cli
