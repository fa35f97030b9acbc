#include "tril/bench/bench.h"

#include <algorithm>
#include <cmath>

#include "peak_memory.h"
#include "step_timer.h"
#include "synthetic_data.h"
#include "trace.h"
#include "tril/bench/phase_clock.h"
#include "tril/generate/generator.h"
#include "tril/model/autocast.h"
#include "tril/model/init.h"
#include "tril/train/memory_estimate.h"

namespace tril {
namespace {

constexpr int64_t kWarmUpSteps = 3;
constexpr int64_t kFewestRounds = 3;
constexpr int64_t kProfiledSteps = 3;
constexpr int64_t kSamples = 5;

/// What is measured in turns, one value per round.
struct Rounds {
  std::vector<double> step_seconds;
  std::map<std::string, std::vector<double>> gemm;  ///< FLOP/s by precision
  std::vector<std::vector<double>> products;        ///< FLOP/s by shape
  std::map<std::string, double> phase_seconds;      ///< sums
  int64_t observed_steps = 0;
};

std::vector<double> ratios(const std::vector<double>& step_seconds,
                           double flops_per_step,
                           const std::vector<double>& gemm) {
  std::vector<double> result;
  for (size_t i = 0; i < step_seconds.size(); ++i) {
    result.push_back(flops_per_step / step_seconds[i] / gemm[i]);
  }
  return result;
}

std::vector<double> divided_by(double x, std::vector<double> values) {
  for (double& value : values) value = x / value;
  return values;
}

Measured measure_generation(GPT& model, int64_t new_tokens, double seconds) {
  const NoTextTokenizer tokenizer(model->config().vocab_size);
  const auto one = [&](int64_t n) {
    const Stopwatch watch;
    generate(model, tokenizer, {tokenizer.start_token()}, {.max_new_tokens = n});
    return static_cast<double>(n) / watch.seconds();
  };
  one(std::min<int64_t>(new_tokens, 8));  // warm-up
  std::vector<double> speeds;
  const Stopwatch watch;
  while (speeds.empty() || (std::ssize(speeds) < kSamples && watch.seconds() < seconds)) {
    speeds.push_back(one(new_tokens));
  }
  return measured(std::move(speeds));
}

}  // namespace

Measured measured(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  return {.median = median, .low = values.front(), .high = values.back()};
}

std::optional<BenchResult> run_bench(const RunConfig& config,
                                     const ResolvedChoices& choices,
                                     const TrainingData& data,
                                     const BenchOptions& options) {
  const auto should_stop = [&] { return options.should_stop && options.should_stop(); };
  const ModelConfig& m = config.model;
  const int64_t micro_batches = config.train.micro_batches(m.context_length);
  const std::string own = precision_name(choices.precision);

  BenchResult result;
  result.parameters = parameter_count(m);
  result.tokens_per_step = config.train.windows_per_step(m.context_length) * m.context_length;
  result.flops_per_token = flops_per_token(m);
  result.estimated_memory_bytes = estimate_memory(config, choices.precision).peak();

  const RunFolder nowhere{std::filesystem::path()};
  Trainer trainer(config, choices, data, nowhere);
  initialize(trainer.model(), config.seed);
  trainer.model()->train();
  double step_seconds = 0;
  for (int64_t i = 0; i < kWarmUpSteps; ++i) {
    step_seconds = seconds_per_step(trainer, choices.device, 1);
    if (should_stop()) return std::nullopt;
  }
  result.peak_memory_bytes = peak_memory_bytes(choices.device);

  // Bare matrix products and training take turns in short pieces, so that a slow moment of the
  // machine meets both.
  const double piece_seconds = std::clamp(options.seconds / 40, 0.02, 0.5);
  const auto products = step_products(m, config.train.batch_size, micro_batches);
  std::map<std::string, GemmBench> gemms;
  gemms.emplace("fp32", GemmBench(products, choices.device, torch::kFloat32));
  gemms.emplace("bf16", GemmBench(products, choices.device, torch::kBFloat16));
  if (!gemms.contains(own)) {
    gemms.emplace(own, GemmBench(products, choices.device, choices.precision));
  }
  Rounds rounds;
  rounds.products.resize(products.size());
  const Stopwatch watch;
  while (result.rounds < kFewestRounds || watch.seconds() < options.seconds) {
    const auto n = std::max<int64_t>(1, std::llround(piece_seconds / step_seconds));
    step_seconds = seconds_per_step(trainer, choices.device, n);
    rounds.step_seconds.push_back(step_seconds);
    for (auto& [precision, gemm] : gemms) {
      if (should_stop()) return std::nullopt;
      const auto speeds = gemm.run(piece_seconds / static_cast<double>(products.size()));
      rounds.gemm[precision].push_back(sum(speeds).flops_per_second());
      if (precision != own) continue;
      for (size_t i = 0; i < speeds.size(); ++i) {
        rounds.products[i].push_back(speeds[i].flops_per_second());
      }
    }
    if (should_stop()) return std::nullopt;
    PhaseClock clock(choices.device);
    const int64_t n_observed = std::max<int64_t>(1, n / 2);
    for (int64_t i = 0; i < n_observed; ++i) trainer.train_step();
    for (const auto& [name, seconds] : clock.seconds()) rounds.phase_seconds[name] += seconds;
    rounds.observed_steps += n_observed;
    ++result.rounds;
  }

  const auto tokens = static_cast<double>(result.tokens_per_step);
  const double flops_per_step = result.flops_per_token * tokens;
  result.step_seconds = measured(rounds.step_seconds);
  result.tokens_per_second = measured(divided_by(tokens, rounds.step_seconds));
  result.flops_per_second = measured(divided_by(flops_per_step, rounds.step_seconds));
  for (const auto& [precision, speeds] : rounds.gemm) {
    result.gemm_flops_per_second[precision] = measured(speeds);
  }
  result.share_of_gemm = measured(ratios(rounds.step_seconds, flops_per_step, rounds.gemm[own]));
  for (size_t i = 0; i < products.size(); ++i) {
    result.products.push_back({products[i], measured(rounds.products[i])});
  }
  for (const auto& [name, seconds] : rounds.phase_seconds) {
    result.phase_seconds[name] = seconds / static_cast<double>(rounds.observed_steps);
    result.observed_step_seconds += result.phase_seconds[name];
  }

  if (!options.profile.empty()) {
    write_trace(options.profile, choices.device, [&] {
      for (int64_t i = 0; i < kProfiledSteps; ++i) trainer.train_step();
      wait_for_device(choices.device);
    });
  }
  if (should_stop()) return std::nullopt;
  if (options.new_tokens > 0) {
    result.generated_tokens_per_second =
        measure_generation(trainer.model(), options.new_tokens, options.seconds / 5);
  }
  return result;
}

}  // namespace tril
