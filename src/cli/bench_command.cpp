// tril bench: how fast this machine trains and generates, and what share of its speed that is.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <system_error>

#include "bench_report.h"
#include "commands.h"
#include "device.h"
#include "output.h"
#include "peers.h"
#include "run_setup.h"
#include "tril/base/error.h"
#include "tril/bench/bench.h"
#include "tril/bench/parallel_bench.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

namespace fs = std::filesystem;

struct BenchArguments {
  std::string config;
  std::string shape = "small";
  std::vector<std::string> sets;
  std::string precision;
  double seconds = 20;
  int64_t new_tokens = -1;
  std::string profile;
  bool json = false;
};

/// Shapes by name, in GPT-2's architecture with AdamW: what the peers of scripts/bench run.
struct NamedShape {
  const char* name;
  int64_t n_embed, context_length, batch_size, n_blocks, n_head, vocab_size;
};
constexpr std::array kShapes = {NamedShape{"small", 128, 64, 12, 4, 4, 65},
                                NamedShape{"medium", 384, 256, 16, 6, 6, 65},
                                NamedShape{"gpt2_124m", 768, 64, 4, 12, 12, 50304},
                                NamedShape{"wide_vocabulary", 256, 256, 8, 4, 4, 50304}};

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const NamedShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

/// A shape as settings, so that --set can override them.
std::vector<std::string> settings_of(const std::string& name) {
  for (const NamedShape& s : kShapes) {
    if (name != s.name) continue;
    const auto set = [](const char* key, int64_t value) {
      return fmt::format("{}={}", key, value);
    };
    return {"model.preset=gpt2",
            set("model.n_embed", s.n_embed),
            set("model.context_length", s.context_length),
            set("model.n_blocks", s.n_blocks),
            set("model.n_head", s.n_head),
            set("model.vocab_size", s.vocab_size),
            set("train.batch_size", s.batch_size),
            "optimizer.name=adamw"};
  }
  throw ConfigError(fmt::format("--shape {}: no shape of this name", name));
}

/// A folder that goes with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(temporary_sibling(fs::temp_directory_path() / "tril_bench")) {
    fs::create_directory(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

RunConfig load_config(const BenchArguments& args, const CommonOptions& common) {
  std::vector<std::string> sets =
      args.config.empty() ? settings_of(args.shape) : std::vector<std::string>();
  sets.insert(sets.end(), args.sets.begin(), args.sets.end());
  if (!args.precision.empty()) sets.push_back("train.precision=" + args.precision);
  const auto file = args.config.empty() ? std::nullopt : std::optional<fs::path>(args.config);
  RunConfig config = load_run_config(file, sets);
  if (common.device) config.device = *common.device;
  if (common.threads) config.threads = *common.threads;
  // A bench has no end of its own, and no epochs: its steps are as many as its time allows.
  config.train.tokens = 0;
  config.train.epochs = 0;
  config.train.steps = int64_t{1} << 30;
  validate(config, "command line");
  return config;
}

/// The config's own data; random ids where only a shape was named.
TrainingData open_data(const BenchArguments& args, RunConfig& config, const fs::path& folder) {
  if (args.config.empty()) {
    if (config.model.vocab_size == 0) {
      throw ConfigError(
          "model.vocab_size 0 means the tokenizer's, and a named shape has none: give a number");
    }
    return synthetic_data(folder / "ids.tokens",
                          config.model.vocab_size,
                          config.model.context_length,
                          config.train.windows_per_step(config.model.context_length));
  }
  TrainingData data = open_training_data(
      config.data,
      config.model.context_length,
      nullptr,
      {.progress = {},
       .stop = [] { return stop_signal() != 0; },
       .notice = [](const std::string& message) { spdlog::info("{}", message); }});
  resolve_vocabulary(config.model, *data.tokenizer);
  return data;
}

/// All processes of a run, each with the same arguments; the first one speaks.
int bench_in_parallel(const BenchArguments& args,
                      const RunConfig& config,
                      const ResolvedChoices& choices,
                      const TrainingData& data,
                      Rendezvous& rendezvous) {
  const auto group =
      make_process_group(rendezvous, choices.device, config.distributed.timeout_seconds);
  const auto result = run_parallel_bench(
      config, choices, data, args.seconds, [] { return stop_signal() != 0; }, *group);
  if (!result) return 128 + (stop_signal() != 0 ? stop_signal() : SIGTERM);
  if (!group->is_first()) return 0;
  if (args.json) {
    print_out("{}\n", dump_json(parallel_bench_json(*result, config, choices)));
  } else {
    print_parallel_bench(*result, config, choices);
  }
  return 0;
}

int bench(const BenchArguments& args,
          const CommonOptions& common,
          const World& world,
          Rendezvous* rendezvous) {
  RunConfig config = load_config(args, common);
  ResolvedChoices choices;
  choices.device = choose_device(config.device, world);
  prepare_for_training(choices.device);
  choices.precision = resolve_precision(config.train.precision, "", config.model, choices.device);
  choices.threads = set_threads(config.threads, world.local_size);
  const TemporaryFolder folder;
  const TrainingData data = open_data(args, config, folder.path());
  validate(config, "resolved config");
  require_memory(
      estimate_memory_of_one(config, choices.precision, world), choices.device, world.local_size);
  if (rendezvous != nullptr) return bench_in_parallel(args, config, choices, data, *rendezvous);

  const int64_t new_tokens = args.new_tokens >= 0
                                 ? args.new_tokens
                                 : std::min<int64_t>(200, config.model.context_length - 1);
  const auto result = run_bench(config,
                                choices,
                                data,
                                {.seconds = args.seconds,
                                 .new_tokens = new_tokens,
                                 .profile = args.profile,
                                 .should_stop = [] { return stop_signal() != 0; }});
  if (!result) return 128 + stop_signal();
  if (args.json) {
    print_out("{}\n", dump_json(bench_json(*result, config, choices)));
  } else {
    print_bench_table(*result, config, choices);
  }
  if (!args.profile.empty()) {
    spdlog::info("trace of three steps: {}; open it in ui.perfetto.dev or about:tracing",
                 args.profile);
  }
  return 0;
}

}  // namespace

CommandEntry add_bench_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand(
      "bench", "Speed of training and generation, and its share of what the machine can do");
  auto args = std::make_shared<BenchArguments>();
  auto* config = command->add_option("--config", args->config, "A run's config, on its own data");
  command
      ->add_option("--shape", args->shape, "A named shape in GPT-2's architecture, on random ids")
      ->check(CLI::IsMember(shape_names()))
      ->excludes(config)
      ->capture_default_str();
  command->add_option("--set", args->sets, "Override one key, for example --set train.batch_size=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--precision",
                      args->precision,
                      "auto, fp32, bf16 or fp16: the same as --set train.precision=X");
  command->add_option("--seconds", args->seconds, "Time for training and matrix products")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--new-tokens",
                   args->new_tokens,
                   "Length of the generated sample; 0: none (default: 200, at most the context)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  command->add_option(
      "--profile", args->profile, "Write a trace of three steps, for a browser's trace viewer");
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(
      R"(Training and the step's bare matrix products take turns in short pieces, so that a slow
moment of the machine meets both; every figure is a median with its range. Nothing is saved.
Examples:
  tril bench
  tril bench --shape medium --precision bf16
  tril bench --config configs/quickstart.json --seconds 30 --json
  tril bench --shape small --profile trace.json
  tril launch --nproc 2 -- bench --shape medium     (the step of several processes)");
  return {command, [args, &common] {
            const World world = find_world({});
            if (world.size == 1) return bench(*args, common, world, nullptr);
            return run_with_peers(world, common, [&](Rendezvous& rendezvous) {
              return bench(*args, common, world, &rendezvous);
            });
          }};
}

}  // namespace tril::cli
