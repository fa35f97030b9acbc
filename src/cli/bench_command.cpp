// tril bench: how fast this machine trains and generates, and what share of its speed that is.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include "commands.h"
#include "device.h"
#include "output.h"
#include "run_setup.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/bench/bench.h"
#include "tril/bench/phase_clock.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"
#include "version.h"

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

std::string precision_name(torch::ScalarType precision) {
  return precision == torch::kBFloat16 ? "bf16" : "fp32";
}

std::string giga(const Measured& m) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", m.median / 1e9, m.low / 1e9, m.high / 1e9);
}

void print_table(const BenchResult& r, const RunConfig& config, const ResolvedChoices& choices) {
  const ModelConfig& m = config.model;
  const std::string precision = precision_name(choices.precision);
  print_out("device           {}, {} threads, {}, {}\n",
            choices.device.str(),
            choices.threads,
            precision,
            enum_name(config.optimizer.name));
  print_out("model            {} parameters: C {}, T {}, B {}, L {}, H {}, V {}\n",
            format_count(static_cast<double>(r.parameters)),
            m.n_embed,
            m.context_length,
            config.train.batch_size,
            m.n_blocks,
            m.n_head,
            m.padded_vocab_size());
  print_out(
      "step             {} tokens, {:.4g} FLOPs per token\n", r.tokens_per_step, r.flops_per_token);
  print_out("measured         {} rounds, taking turns; median (lowest to highest)\n\n", r.rounds);

  print_out("{:<28} {:>14}   GFLOP/s alone, {}\n", "matrix product", "rows x in x out", precision);
  for (const ProductResult& p : r.products) {
    print_out("{:<20} {:>22}   {}\n",
              fmt::format("{} x{}", p.shape.name, p.shape.count),
              fmt::format("{} x {} x {}", p.shape.rows, p.shape.in, p.shape.out),
              giga(p.flops_per_second));
  }
  for (const auto& [name, speed] : r.gemm_flops_per_second) {
    print_out("{:<43}   {}\n", "all of a step, " + name, giga(speed));
  }

  print_out("\ntraining         {:.0f} tokens/s ({:.0f} to {:.0f}), {:.2f} ms per step\n",
            r.tokens_per_second.median,
            r.tokens_per_second.low,
            r.tokens_per_second.high,
            1e3 * r.step_seconds.median);
  print_out("                 {} GFLOP/s\n", giga(r.flops_per_second));
  print_out("share of GEMM    {:.1f} % ({:.1f} to {:.1f})\n\n",
            100 * r.share_of_gemm.median,
            100 * r.share_of_gemm.low,
            100 * r.share_of_gemm.high);

  print_out("{:<16} {:>10} {:>8}\n", "part of a step", "ms", "%");
  for (const std::string& name : phase_names()) {
    const double seconds = r.phase_seconds.at(name);
    print_out("{:<16} {:>10.3f} {:>8.1f}\n",
              name,
              1e3 * seconds,
              100 * seconds / r.observed_step_seconds);
  }
  print_out("\nmemory           {} at the peak, {} estimated\n",
            format_bytes(static_cast<double>(r.peak_memory_bytes)),
            format_bytes(r.estimated_memory_bytes));
  if (r.generated_tokens_per_second.median > 0) {
    print_out("generation       {:.0f} tokens/s ({:.0f} to {:.0f}), one sample at a time, fp32\n",
              r.generated_tokens_per_second.median,
              r.generated_tokens_per_second.low,
              r.generated_tokens_per_second.high);
  }
}

OrderedJson to_json(const Measured& m) {
  return {{"median", m.median}, {"low", m.low}, {"high", m.high}};
}

OrderedJson to_json(const BenchResult& r, const RunConfig& config, const ResolvedChoices& choices) {
  OrderedJson json;
  json["version"] = version_text();
  json["device"] = choices.device.str();
  json["threads"] = choices.threads;
  json["precision"] = precision_name(choices.precision);
  json["model"] = tril::to_json(config).at("model");
  json["optimizer"] = enum_name(config.optimizer.name);
  json["batch_size"] = config.train.batch_size;
  json["parameters"] = r.parameters;
  json["tokens_per_step"] = r.tokens_per_step;
  json["flops_per_token"] = r.flops_per_token;
  json["rounds"] = r.rounds;
  json["tokens_per_second"] = to_json(r.tokens_per_second);
  json["step_seconds"] = to_json(r.step_seconds);
  json["flops_per_second"] = to_json(r.flops_per_second);
  for (const auto& [name, speed] : r.gemm_flops_per_second) {
    json["gemm_flops_per_second"][name] = to_json(speed);
  }
  json["share_of_gemm"] = to_json(r.share_of_gemm);
  for (const ProductResult& p : r.products) {
    json["products"].push_back({{"name", p.shape.name},
                                {"rows", p.shape.rows},
                                {"in", p.shape.in},
                                {"out", p.shape.out},
                                {"count", p.shape.count},
                                {"flops_per_second", to_json(p.flops_per_second)}});
  }
  for (const std::string& name : phase_names()) {
    json["phase_seconds"][name] = r.phase_seconds.at(name);
  }
  json["observed_step_seconds"] = r.observed_step_seconds;
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  json["estimated_memory_bytes"] = r.estimated_memory_bytes;
  json["generated_tokens_per_second"] = to_json(r.generated_tokens_per_second);
  return json;
}

int bench(const BenchArguments& args, const CommonOptions& common) {
  RunConfig config = load_config(args, common);
  ResolvedChoices choices;
  choices.device = choose_device(config.device);
  prepare_for_training(choices.device);
  choices.precision = resolve_precision(config.train.precision, "", config.model, choices.device);
  choices.threads = set_threads(config.threads);
  const TemporaryFolder folder;
  const TrainingData data = open_data(args, config, folder.path());
  validate(config, "resolved config");
  require_memory(estimate_memory(config, choices.precision == torch::kBFloat16), choices.device);

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
    print_out("{}\n", dump_json(to_json(*result, config, choices)));
  } else {
    print_table(*result, config, choices);
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
  command->add_option(
      "--precision", args->precision, "auto, fp32 or bf16: the same as --set train.precision=…");
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
  tril bench --shape small --profile trace.json)");
  return {command, [args, &common] { return bench(*args, common); }};
}

}  // namespace tril::cli
