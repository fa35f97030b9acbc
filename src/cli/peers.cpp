#include "peers.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "device.h"
#include "run_setup.h"
#include "tril/base/error.h"
#include "tril/base/log.h"
#include "tril/model/autocast.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

constexpr const char* kPlanKey = "plan";
constexpr const char* kFailureKey = "failure";
/// How long rank 0 keeps the store for the others: after the end, and after a failure, to read what
/// has happened.
constexpr double kLeaveSeconds = 10;
constexpr double kLeaveAfterFailureSeconds = 2;
/// How long a process whose peer has gone waits for that one's last words.
constexpr double kLastWordsSeconds = 1;

bool stop_asked() {
  return stop_signal() != 0;
}

/// The data of a follower must be what rank 0 trains on: a copy on this machine may be another.
void require_same_as_first(const World& world,
                           const std::string& what,
                           const std::string& found,
                           const std::string& first) {
  if (found == first) return;
  throw DataError(fmt::format(
      "rank {}: the {} data here is not rank 0's (fingerprint {}, rank 0 has {}). Every machine "
      "needs the same files under the same paths",
      world.rank,
      what,
      found.empty() ? "none" : found,
      first.empty() ? "none" : first));
}

/// The share of all parameters that lies in one block.
double share_of_block(const ModelConfig& model) {
  ModelConfig empty = model;
  empty.n_blocks = 0;
  const auto all = static_cast<double>(parameter_count(model));
  const auto outside = static_cast<double>(parameter_count(empty));
  return (all - outside) / static_cast<double>(model.n_blocks) / all;
}

/// What another process has said before it failed; waits a moment for it.
std::optional<std::string> last_words(Rendezvous& rendezvous) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(static_cast<int64_t>(1000 * kLastWordsSeconds));
  for (;;) {
    if (auto words = rendezvous.find(kFailureKey)) return words;
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void tell_others(Rendezvous& rendezvous, const std::string& message) {
  try {
    rendezvous.publish(kFailureKey, fmt::format("rank {}: {}", rendezvous.world().rank, message));
  } catch (const Error&) {
    // The store has gone, and rank 0 with it: they know.
  }
}

int play(const Part& part, Rendezvous& rendezvous) {
  const bool leads = rendezvous.world().rank == 0;
  try {
    return part(rendezvous);
  } catch (const PeerError& error) {
    const auto words = last_words(rendezvous);
    if (!words) throw PeerError(fmt::format("rank {}: {}", rendezvous.world().rank, error.what()));
    if (!leads) return error.exit_code();  // it, or rank 0, has said it
    throw PeerError(*words);
  } catch (const Error& error) {
    // These happen to all processes at once; rank 0 says them.
    const bool all_alike = dynamic_cast<const DivergedError*>(&error) != nullptr ||
                           dynamic_cast<const ConfigError*>(&error) != nullptr;
    // Others may, such as a file that is nowhere.
    const bool said = !leads && !all_alike && last_words(rendezvous);
    if (!said) tell_others(rendezvous, error.what());
    if (!leads && (all_alike || said)) return error.exit_code();
    throw;
  } catch (const std::exception& error) {
    tell_others(rendezvous, error.what());
    throw;
  }
}

}  // namespace

int follow(Rendezvous& rendezvous) {
  const World& world = rendezvous.world();
  const auto text = rendezvous.await(kPlanKey, stop_asked);
  if (!text) return 128 + stop_signal();
  const Json plan = parse_json(*text, "rank 0's plan", FileRole::kConfig);
  if (plan.contains("exit_code")) return plan.at("exit_code").get<int>();  // it has said why

  const RunConfig config = run_config_from_json(plan.at("config"), "rank 0's config");
  ResolvedChoices choices;
  choices.device = choose_device(plan.at("device").get<std::string>(), world);
  prepare_for_training(choices.device);
  choices.precision = precision_named(plan.at("precision").get<std::string>()).value();
  choices.threads = set_threads(plan.at("threads").get<int64_t>(), world.local_size);
  const TrainingData data =
      open_training_data(config.data,
                         config.model.context_length,
                         tokenizer_from_json(plan.at("tokenizer"), "rank 0's tokenizer"),
                         {.progress = {}, .stop = stop_asked, .notice = {}});
  require_same_as_first(
      world, "training", data.train_fingerprint, plan.at("train_fingerprint").get<std::string>());
  require_same_as_first(world,
                        "validation",
                        data.validation_fingerprint,
                        plan.at("validation_fingerprint").get<std::string>());

  const auto group =
      make_process_group(rendezvous, choices.device, config.distributed.timeout_seconds);
  const RunFolder folder(config.run_dir);
  Trainer trainer(config, choices, data, folder, group.get());
  trainer.join();
  return trainer.run() == TrainOutcome::kSignal ? 128 + trainer.stopped_by() : 0;
}

int run_with_peers(const World& world, const CommonOptions& common, const Part& part) {
  const bool debug = common.log_level == "debug" || common.log_level == "trace";
  if (world.rank > 0) init_logging(debug ? common.log_level : "error");
  Rendezvous rendezvous(world);
  try {
    const int exit_code = play(part, rendezvous);
    rendezvous.leave(kLeaveSeconds);
    return exit_code;
  } catch (const Error& error) {
    if (world.rank == 0) {
      try {  // for those that still wait for a plan
        rendezvous.publish(kPlanKey, fmt::format("{{\"exit_code\": {}}}", error.exit_code()));
      } catch (const Error&) {
      }
    }
    rendezvous.leave(kLeaveAfterFailureSeconds);
    throw;
  }
}

std::unique_ptr<ProcessGroup> lead_others(Rendezvous& rendezvous,
                                          const RunConfig& config,
                                          const ResolvedChoices& choices,
                                          const TrainingData& data) {
  OrderedJson plan;
  plan["config"] = to_json(config);
  plan["device"] = choices.device.is_cpu() ? "cpu" : "cuda";
  plan["precision"] = precision_name(choices.precision);
  plan["threads"] = config.threads == 0 ? int64_t{0} : choices.threads;
  plan["tokenizer"] = data.tokenizer->to_json();
  plan["train_fingerprint"] = data.train_fingerprint;
  plan["validation_fingerprint"] = data.validation_fingerprint;
  rendezvous.publish(kPlanKey, dump_json(plan, -1));
  return make_process_group(rendezvous, choices.device, config.distributed.timeout_seconds);
}

MemoryEstimate estimate_memory_of_one(const RunConfig& config,
                                      torch::ScalarType precision,
                                      const World& world) {
  RunConfig own = config;
  own.train.batch_size = (config.train.batch_size + world.size - 1) / world.size;
  own.train.tokens_per_step = 0;
  MemoryEstimate estimate = estimate_memory(own, precision);
  const auto n = static_cast<double>(world.size);
  if (config.distributed.shard != Shard::kNone) estimate.moments /= n;
  if (config.distributed.shard == Shard::kFull) {
    // Its share, and of weights two blocks; of gradients one, and the vocabulary's, before they are
    // sent.
    const double block = share_of_block(config.model);
    const double outside = 1.0 - static_cast<double>(config.model.n_blocks) * block;
    estimate.weights *= std::min(1.0, 1.0 / n + 2 * block);
    estimate.gradients *= std::min(1.0, 1.0 / n + block + std::max(block, outside));
  }
  return estimate;
}

}  // namespace tril::cli
