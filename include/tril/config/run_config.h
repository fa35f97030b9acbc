#pragma once
// The whole configuration of a run, and how it comes from files and the command line.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/config/data_config.h"
#include "tril/config/distributed_config.h"
#include "tril/config/field.h"
#include "tril/config/model_config.h"
#include "tril/config/optimizer_config.h"
#include "tril/config/train_config.h"

namespace tril {

/// "auto", "cpu", "cuda" or "cuda:N".
bool is_device_name(std::string_view text);

struct RunConfig {
  uint64_t seed = 1337;
  std::string run_dir;    ///< "": runs/<config name>; load_run_config resolves it
  std::string init_from;  ///< absolute path of a run or checkpoint, or "": fresh weights
  std::string device = "auto";
  int64_t threads = 0;
  DataConfig data;
  ModelConfig model;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  CheckpointConfig checkpoint;
  LoggingConfig logging;
  DistributedConfig distributed;

  bool operator==(const RunConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("seed",
            self.seed,
            {.meaning = "of everything random: weights, windows, dropout, samples",
             .min = 0,
             .max = kMaxExactInteger});
    v.field("run_dir",
            self.run_dir,
            {.meaning = "the run's folder; empty: `runs/` and the name of the config file",
             .keywords = "|",
             .path = PathBase::kWorkingFolder,
             .on_resume = OnResume::kMayChange});
    v.field(
        "init_from",
        self.init_from,
        {.meaning = "a run (its latest checkpoint) or one checkpoint folder whose weights a new "
                    "run begins with; empty: fresh weights. Keys of `model` that are not given "
                    "are taken from it; `context_length` may be cropped and the vocabulary may "
                    "grow",
         .keywords = "|",
         .path = PathBase::kConfigFile,
         .on_resume = OnResume::kMayChange});
    v.field("device",
            self.device,
            {.meaning = "where to compute; `auto`: a GPU when there is one",
             .allowed = "auto, cpu, cuda or cuda:N",
             .accepts = is_device_name,
             .on_resume = OnResume::kMayChange});
    v.field("threads",
            self.threads,
            {.meaning = "CPU threads; 0: chosen by the machine's cores",
             .unit = "threads",
             .min = 0,
             .max = 4096,
             .on_resume = OnResume::kMayChange});
    v.section("data", self.data);
    v.section("model", self.model);
    v.section("optimizer", self.optimizer);
    v.section("schedule", self.schedule);
    v.section("train", self.train);
    v.section("checkpoint", self.checkpoint);
    v.section("logging", self.logging);
    v.section("distributed", self.distributed);
  }
};

/// "configs/smoke.json" -> "smoke"; no file -> "default".
std::string config_name(const std::optional<std::filesystem::path>& file);

/// Defaults, then `file` with what it extends, then `sets` ("train.steps=5"), checked as a whole.
/// Paths come out absolute and run_dir filled in. Throws ConfigError: file or --set, key, value
/// found, what is allowed, nearest known key. `base_model`: what the keys of `model` are where
/// neither file nor sets give them (init_from), instead of the defaults.
RunConfig load_run_config(const std::optional<std::filesystem::path>& file,
                          const std::vector<std::string>& sets,
                          const ModelConfig* base_model = nullptr);

/// Reads a resolved config, as to_json wrote it into a run or checkpoint. Keys it lacks keep their
/// defaults; unknown ones, `extends` too, are a ConfigError that begins with `origin`.
RunConfig run_config_from_json(const Json& json, const std::string& origin);

/// A stored config with --set on top. A preset set here decides its keys anew.
RunConfig override_run_config(RunConfig base, const std::vector<std::string>& sets);

/// Every key, in the order of the documentation; run_config_from_json gives back an equal config.
OrderedJson to_json(const RunConfig& config);

/// Every range and every contradiction between keys; for configs made or changed by code too.
/// Throws ConfigError that begins with `origin`.
void validate(const RunConfig& config, const std::string& origin);

/// configs/README.md: every key with meaning, unit, default, allowed values.
std::string describe_config();

/// One key that differs between a stored config and the one wanted on resume.
struct ConfigChange {
  std::string key;     ///< "train.steps"
  std::string before;  ///< values as JSON text
  std::string after;
  bool allowed = false;
};
std::vector<ConfigChange> compare_for_resume(const RunConfig& stored, const RunConfig& wanted);

/// Throws ConfigError with one line per change that is not allowed; no such change: does nothing.
void require_allowed(const std::vector<ConfigChange>& changes, const std::string& origin);

}  // namespace tril
