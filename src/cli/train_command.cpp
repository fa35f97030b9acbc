// tril train: from a config to a trained model.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "device.h"
#include "load_run.h"
#include "output.h"
#include "peers.h"
#include "run_setup.h"
#include "train_banner.h"
#include "tril/base/error.h"
#include "tril/base/log.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/config/run_config.h"
#include "tril/data/training_data.h"
#include "tril/distributed/world.h"
#include "tril/model/autocast.h"
#include "tril/train/initial_weights.h"
#include "tril/train/machine.h"
#include "tril/train/memory_estimate.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace fs = std::filesystem;
namespace {

/// From here on (about ten seconds on two cores) a run is worth the 0.1 s that it takes to measure
/// the machine's peak, once.
constexpr double kLongRunFlops = 1e12;
constexpr int64_t kMostThreads = 4096;  // as the config's own limit

struct TrainArguments {
  std::optional<std::string> config;
  std::vector<std::string> sets;
  std::string run_dir;
  std::string resume;  ///< "", "latest", "auto", a step, or a checkpoint folder
  bool overwrite = false;
  bool dry_run = false;
  WorldFlags world;
};

/// Where a resumed run begins.
struct ResumePoint {
  Checkpoint checkpoint;
  CheckpointState state;
  RunConfig config;
  std::vector<CheckpointEntry> damaged;   ///< newer ones, passed over by --resume=auto
  std::optional<CheckpointEntry> latest;  ///< the folder's newest when this was decided
};

RunFolder run_folder_of(const TrainArguments& args, const std::optional<RunConfig>& config) {
  return RunFolder(fs::absolute(args.run_dir.empty() ? config->run_dir : args.run_dir));
}

/// --resume=auto: the newest checkpoint that is whole. A job that is queued again and again must
/// not stand still because a disk has damaged the last one; what is damaged is kept aside.
std::optional<fs::path> newest_for_auto(const RunFolder& folder,
                                        std::vector<CheckpointEntry>& damaged) {
  const auto entry =
      folder.newest_intact([&](const CheckpointEntry& found, const std::string& fault) {
        spdlog::warn("{}", fault);
        damaged.push_back(found);
      });
  if (entry) return entry->folder;
  if (damaged.empty()) return std::nullopt;
  throw CheckpointError(
      fmt::format("{}: all {} checkpoints are damaged; see tril checkpoint verify. To begin anew, "
                  "choose another "
                  "--run-dir or give --overwrite",
                  folder.root().string(),
                  damaged.size()));
}

/// Every file at once, so that a damaged one is named before anything is computed.
void require_whole(const Checkpoint& checkpoint) {
  const auto faults = checkpoint.verify();
  if (faults.empty()) return;
  throw CheckpointError(
      fmt::format("{}. --resume=auto goes on from the newest checkpoint that is whole",
                  fmt::join(faults, "\n")));
}

std::optional<ResumePoint> find_resume_point(const TrainArguments& args, const RunFolder& folder) {
  if (args.resume.empty()) return std::nullopt;
  const auto latest = folder.latest();
  std::optional<fs::path> path;
  std::vector<CheckpointEntry> damaged;
  if (args.resume == "auto") {
    path = newest_for_auto(folder, damaged);
    if (!path) return std::nullopt;
  } else if (args.resume == "latest") {
    if (latest) path = latest->folder;
    if (!path) {
      throw CheckpointError(fmt::format(
          "--resume: {} holds no complete checkpoint. --resume=auto starts a new run there",
          folder.root().string()));
    }
  } else {
    path =
        fs::is_directory(args.resume) ? fs::path(args.resume) : folder.choose(args.resume).folder;
    // Going on from an older state would leave newer checkpoints that do not belong to it.
    if (latest && !fs::equivalent(*path, latest->folder)) {
      throw ConfigError(
          fmt::format("--resume {}: {} holds a newer checkpoint (step {}). To branch off, give a "
                      "new --run-dir and "
                      "the folder of the checkpoint: --resume {}",
                      args.resume,
                      folder.root().string(),
                      latest->step,
                      path->string()));
    }
  }
  Checkpoint checkpoint = Checkpoint::open(*path);
  checkpoint.require_optimizer();
  if (args.resume == "latest") require_whole(checkpoint);
  RunConfig config = stored_config(checkpoint);
  CheckpointState state = checkpoint.state();
  return ResumePoint{
      std::move(checkpoint), std::move(state), std::move(config), std::move(damaged), latest};
}

/// Once the lock is held: is the folder still what the decision to start or to go on was made for?
/// Between the two another process may have trained there, and ended.
void require_unchanged(const RunFolder& folder,
                       const std::optional<ResumePoint>& point,
                       const TrainArguments& args) {
  const auto latest = folder.latest();
  const auto before = point ? point->latest : std::nullopt;
  const bool same =
      latest.has_value() == before.has_value() && (!latest || latest->step == before->step);
  if (same || args.overwrite) return;
  throw ConfigError(
      fmt::format("{}: another process has written to this run just now (its newest checkpoint is "
                  "of step {}). Try again",
                  folder.root().string(),
                  latest ? latest->step : 0));
}

/// What `init_from` names.
struct InitialWeights {
  Checkpoint checkpoint;
  ModelConfig model;
  std::shared_ptr<const Tokenizer> tokenizer;
};

std::optional<InitialWeights> find_initial_weights(const std::string& path) {
  if (path.empty()) return std::nullopt;
  Checkpoint checkpoint = open_run_argument(path, "latest");
  ModelConfig model = stored_config(checkpoint).model;
  auto tokenizer = tokenizer_from_json(checkpoint.tokenizer(),
                                       (checkpoint.folder() / "tokenizer.json").string());
  return InitialWeights{std::move(checkpoint), std::move(model), std::move(tokenizer)};
}

/// Refuses to write into a folder that holds a run, unless told to.
void require_free(const RunFolder& folder, const TrainArguments& args) {
  if (!folder.has_run() || args.overwrite || !args.resume.empty()) return;
  throw ConfigError(fmt::format(
      "{} already holds a run. Go on with it: --resume. Replace it: --overwrite. Or choose another "
      "--run-dir",
      folder.root().string()));
}

/// Says what differs from the stored config, and what follows from it.
void report_changes(const std::vector<ConfigChange>& changes) {
  bool new_length = false;
  for (const auto& change : changes) {
    if (change.key == "threads") continue;  // the thread count in force is compared below
    spdlog::info(
        "changed since the checkpoint: {} from {} to {}", change.key, change.before, change.after);
    new_length |=
        change.key == "train.steps" || change.key == "train.tokens" || change.key == "train.epochs";
  }
  if (new_length) {
    spdlog::info("the learning rate follows the curve of the new length from here on");
  }
}

/// Same data as before: the promise of an exact resume rests on it.
void require_same_data(const CheckpointState& state, const TrainingData& data) {
  const auto check = [](const char* what, const std::string& stored, const std::string& found) {
    if (stored == found) return;
    throw DataError(
        fmt::format("the {} data is not what this run was trained with (fingerprint {}, the "
                    "checkpoint has {}). "
                    "Start a new run for other data",
                    what,
                    found.empty() ? "none" : found,
                    stored.empty() ? "none" : stored));
  };
  check("training", state.train_fingerprint, data.train_fingerprint);
  check("validation", state.validation_fingerprint, data.validation_fingerprint);
}

int64_t steps_of(const RunConfig& config, const TrainingData& data) {
  const WindowSampler sampler =
      data.windows(config.data.sampling, config.model.context_length, config.seed);
  return config.train.total_steps(config.model.context_length, sampler.windows_per_epoch());
}

void print_dry_run(const RunConfig& config,
                   const ResolvedChoices& choices,
                   const MemoryEstimate& estimate,
                   const TrainingData& data,
                   int64_t total_steps) {
  const ModelConfig& m = config.model;
  const int64_t tokens_per_step =
      config.train.windows_per_step(m.context_length) * m.context_length;
  print_out("{}\n\n", dump_json(to_json(config)));
  print_out("device               {}, {} threads, {}\n",
            choices.device.str(),
            choices.threads,
            precision_name(choices.precision));
  print_out("parameters           {}\n", parameter_count(m));
  print_out("training tokens      {}\n", data.train.size());
  print_out("validation tokens    {}\n", data.validation ? data.validation->size() : 0);
  print_out("steps                {}\n", total_steps);
  print_out("tokens per step      {}\n", tokens_per_step);
  print_out("FLOPs per token      {:.4g}\n", flops_per_token(m));
  print_out(
      "FLOPs in all         {:.4g}\n",
      flops_per_token(m) * static_cast<double>(tokens_per_step) * static_cast<double>(total_steps));
  print_out("expected first loss  {:.4f} (ln {})\n",
            std::log(static_cast<double>(m.vocab_size)),
            m.vocab_size);
  print_out(
      "memory               weights {}, gradients {}, moments {}, activations {}, loss {}, "
      "evaluation {}, program {}\n",
      format_bytes(estimate.weights),
      format_bytes(estimate.gradients),
      format_bytes(estimate.moments),
      format_bytes(estimate.activations),
      format_bytes(estimate.loss),
      format_bytes(estimate.evaluation),
      format_bytes(estimate.runtime));
  print_out("estimated peak       {}\n", format_bytes(estimate.peak()));
}

int finish(TrainOutcome outcome, const Trainer& trainer, const RunFolder& folder) {
  const auto& state = trainer.state();
  const std::string go_on =
      fmt::format("Go on with: tril train --run-dir {} --resume", folder.root().string());
  switch (outcome) {
    case TrainOutcome::kFinished:
      spdlog::info("done: step {} of {}{}. Try: tril generate {}",
                   state.step,
                   trainer.total_steps(),
                   state.best_validation_loss
                       ? fmt::format(", best validation loss {:.4f} at step {}",
                                     *state.best_validation_loss,
                                     state.best_step)
                       : "",
                   folder.root().string());
      return 0;
    case TrainOutcome::kBudget:
      spdlog::info(
          "time budget used: saved at step {} of {}. {}", state.step, trainer.total_steps(), go_on);
      return 0;
    case TrainOutcome::kSignal:
      spdlog::info("stopped by signal {}: saved at step {} of {}. {}",
                   trainer.stopped_by(),
                   state.step,
                   trainer.total_steps(),
                   go_on);
      return 128 + trainer.stopped_by();
  }
  return 1;
}

/// The config to run with: the stored one with what the user asked to change, or a new one.
RunConfig merge_config(const TrainArguments& args,
                       const std::optional<RunConfig>& asked,
                       const std::optional<ResumePoint>& point) {
  if (!point) return *asked;
  return asked ? *asked : override_run_config(point->config, args.sets);
}

/// How many threads each process computes with, where the config leaves it open: as before on the
/// same number of processes (bit for bit), else what the machine gives.
int64_t wanted_threads(const RunConfig& config,
                       const std::optional<ResumePoint>& point,
                       const World& world) {
  if (config.threads != 0 || !point) return config.threads;
  const bool same_world = std::max<int64_t>(1, point->state.processes) == world.size;
  const bool plausible = point->state.threads <= 4 * default_threads();
  return same_world && plausible ? point->state.threads : 0;
}

/// What decides the last bits of a resumed run, where it is not as before.
void warn_of_other_bits(const CheckpointState& stored,
                        const ResolvedChoices& choices,
                        const World& world) {
  if (stored.threads != choices.threads) {
    spdlog::warn("{} threads, the run had {}: it goes on correctly, but not bit for bit as before",
                 choices.threads,
                 stored.threads);
  }
  const int64_t processes = std::max<int64_t>(1, stored.processes);
  if (processes != world.size) {
    spdlog::warn(
        "{} processes, the run had {}: it goes on with the same windows, equal but for "
        "rounding",
        world.size,
        processes);
  }
}

/// `rendezvous`: with the processes that train along; none: this one alone.
int train(const TrainArguments& args,
          const CommonOptions& common,
          const World& world,
          Rendezvous* rendezvous) {
  if (!args.config && args.resume.empty()) {
    throw ConfigError(
        "tril train needs --config FILE (for example configs/quickstart.json), or "
        "--run-dir DIR --resume to go on with a run");
  }
  if (!args.config && args.run_dir.empty()) {
    throw ConfigError("--resume needs --run-dir DIR or --config FILE: which run should go on?");
  }
  if (!args.resume.empty() && args.overwrite) {
    throw ConfigError("--resume and --overwrite contradict each other");
  }
  std::optional<RunConfig> asked;
  if (args.config) asked = load_run_config(fs::path(*args.config), args.sets);

  RunFolder folder = run_folder_of(args, asked);
  if (!args.dry_run) require_free(folder, args);
  const auto point = find_resume_point(args, folder);
  if (!point && !asked) {
    throw ConfigError(
        fmt::format("{} holds no run to go on with, and a new one needs --config FILE",
                    folder.root().string()));
  }

  // Keys of the model that nobody gives are those of the weights the run has or begins with.
  std::optional<InitialWeights> initial;
  if (asked && !asked->init_from.empty()) {
    if (!point) initial = find_initial_weights(asked->init_from);
    const ModelConfig base = point ? point->config.model : initial->model;
    asked = load_run_config(fs::path(*args.config), args.sets, &base);
  }

  RunConfig config = merge_config(args, asked, point);
  config.run_dir = folder.root().string();
  if (common.device) config.device = *common.device;
  if (common.threads) config.threads = *common.threads;
  validate(config, "command line");

  ResolvedChoices choices;
  choices.device = choose_device(config.device, world);
  prepare_for_training(choices.device);
  choices.precision = resolve_precision(
      config.train.precision, point ? point->state.precision : "", config.model, choices.device);
  choices.threads = set_threads(wanted_threads(config, point, world), world.local_size);

  std::shared_ptr<const Tokenizer> tokenizer;
  if (point)
    tokenizer =
        tokenizer_from_json(point->checkpoint.tokenizer(), point->checkpoint.folder().string());
  if (initial) tokenizer = tokenizer_for_initial_weights(initial->tokenizer, config.data.tokenizer);
  Progress data_progress;
  const TrainingData data = open_training_data(
      config.data,
      config.model.context_length,
      tokenizer,
      {.progress =
           [&](int64_t done, int64_t total) {
             data_progress.activity(
                 fmt::format("tokenising {} %", 100 * done / std::max<int64_t>(total, 1)));
           },
       .stop = [] { return stop_signal() != 0; },
       .notice = [](const std::string& message) { spdlog::info("{}", message); }});
  data_progress.clear();
  if (initial) {  // a larger tokenizer makes the vocabulary grow
    config.model.vocab_size = std::max(config.model.vocab_size, data.tokenizer->vocab_size());
    require_initial_weights_fit(initial->model, config.model, config.init_from);
  }
  resolve_vocabulary(config.model, *data.tokenizer);
  validate(config, "resolved config");

  if (point) {
    const auto changes = compare_for_resume(point->config, config);
    require_allowed(changes, "--resume");
    report_changes(changes);
    require_same_data(point->state, data);
    warn_of_other_bits(point->state, choices, world);
  }

  const MemoryEstimate estimate = estimate_memory_of_one(config, choices.precision, world);
  if (args.dry_run) {
    print_dry_run(config, choices, estimate, data, steps_of(config, data));
    require_memory(estimate, choices.device, world.local_size);
    return 0;
  }
  require_memory(estimate, choices.device, world.local_size);

  const double run_flops =
      flops_per_token(config.model) *
      static_cast<double>(config.train.windows_per_step(config.model.context_length) *
                          config.model.context_length) *
      static_cast<double>(steps_of(config, data));
  if (run_flops > kLongRunFlops) {
    choices.peak_flops = peak_matmul_rate(choices.device, choices.precision, choices.threads);
  }
  // What only shows when model and optimizer are made is refused before anything is written.
  std::unique_ptr<ProcessGroup> group;
  if (rendezvous != nullptr) group = lead_others(*rendezvous, config, choices, data);
  Trainer trainer(config, choices, data, folder, group.get());
  folder.create_and_lock();
  require_unchanged(folder, point, args);
  if (point) {
    for (const CheckpointEntry& entry : point->damaged) {
      spdlog::warn("kept aside: {}", folder.set_aside(entry).string());
    }
  }
  if (args.overwrite) folder.remove_run_files();
  folder.remove_leftovers();
  add_log_file(folder.log_path());
  write_file_atomically(folder.config_path(), dump_json(to_json(config)) + "\n");
  write_file_atomically(folder.tokenizer_path(), dump_json(data.tokenizer->to_json()) + "\n");
  spdlog::debug("config: {}", dump_json(to_json(config), -1));

  if (point) {
    trainer.resume(point->checkpoint);
    spdlog::info("resuming from {}", point->checkpoint.folder().string());
  } else {
    trainer.start([&](GPT& model) {
      if (initial) load_initial_weights(model, initial->model, initial->checkpoint);
    });
    if (initial) spdlog::info("weights     from {}", initial->checkpoint.folder().string());
  }
  const RunStart start{.config = config,
                       .choices = choices,
                       .data = data,
                       .folder = folder,
                       .memory = estimate,
                       .group = group.get(),
                       .total_steps = trainer.total_steps(),
                       .steps_done = trainer.state().step};
  print_banner(start);
  if (start.steps_done < start.total_steps) {
    trainer.metrics().write("start", start.steps_done, start_event(start));
  }
  return finish(trainer.run(), trainer, folder);
}

int train_alone_or_with_peers(const TrainArguments& args, const CommonOptions& common) {
  const World world = find_world(args.world);
  if (world.size > 1 && args.dry_run && world.rank > 0) return 0;
  if (world.size == 1 || args.dry_run) return train(args, common, world, nullptr);
  return run_with_peers(world, common, [&](Rendezvous& rendezvous) {
    return world.rank == 0 ? train(args, common, world, &rendezvous) : follow(rendezvous);
  });
}

}  // namespace

CommandEntry add_train_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("train", "Train a model from a config, or go on with a run");
  auto args = std::make_shared<TrainArguments>();
  command->add_option(
      "--config", args->config, "The config file (configs/README.md lists every key)");
  command->add_option("--set", args->sets, "Override one key, for example --set train.steps=200")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--run-dir", args->run_dir, "The run's folder (default: runs/<config name>)");
  auto* resume =
      command
          ->add_option(
              "--resume",
              args->resume,
              "Go on: from the latest checkpoint (no value), a step or a checkpoint folder; "
              "auto starts a new run where there is none")
          ->type_name("[auto|latest|CHECKPOINT]")
          ->expected(0, 1);
  command->add_flag("--overwrite", args->overwrite, "Replace a run that is there");
  command->add_flag(
      "--dry-run", args->dry_run, "Print the resolved config, sizes and memory; train nothing");
  command->add_option("--rank", args->world.rank, "Number of this process, from 0")
      ->group("Several processes (torchrun, srun and mpirun say it themselves)");
  command->add_option("--world-size", args->world.size, "How many processes there are")
      ->group("Several processes (torchrun, srun and mpirun say it themselves)");
  command->add_option("--master", args->world.address, "Where rank 0 listens")
      ->type_name("HOST:PORT")
      ->group("Several processes (torchrun, srun and mpirun say it themselves)");
  command->footer(R"(Examples:
  tril train --config configs/quickstart.json
  tril train --config configs/smoke.json --run-dir runs/a --set optimizer.learning_rate=3e-3
  tril train --run-dir runs/a --resume
  tril train --config configs/smoke.json --run-dir runs/a --resume=auto   (for batch queues)
  tril train --config configs/gpt2_124m.json --dry-run)");
  return {command, [args, resume, &common] {
            if (resume->count() > 0 && args->resume.empty()) args->resume = "latest";
            return train_alone_or_with_peers(*args, common);
          }};
}

}  // namespace tril::cli
