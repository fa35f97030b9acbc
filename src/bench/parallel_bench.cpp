#include "tril/bench/parallel_bench.h"

#include <algorithm>
#include <cmath>

#include "peak_memory.h"
#include "step_timer.h"
#include "tril/model/init.h"

namespace tril {
namespace {

constexpr int64_t kParallelWarmUpSteps = 3;
constexpr int64_t kFewestParallelRounds = 5;
constexpr double kRoundSeconds = 1;

/// How many steps the coming round has, by the first process's clock; 0: the end. Negative: some
/// process was told to stop.
int64_t agree_on_steps(ProcessGroup& group, int64_t wanted, bool stop) {
  torch::Tensor votes = torch::tensor({group.is_first() ? wanted : int64_t{0}, int64_t{stop}});
  group.all_reduce(votes, Combine::kMax);
  return votes[1].item<int64_t>() != 0 ? -1 : votes[0].item<int64_t>();
}

}  // namespace

std::optional<ParallelBenchResult> run_parallel_bench(const RunConfig& config,
                                                      const ResolvedChoices& choices,
                                                      const TrainingData& data,
                                                      double seconds,
                                                      const std::function<bool()>& should_stop,
                                                      ProcessGroup& group) {
  const ModelConfig& m = config.model;
  ParallelBenchResult result;
  result.processes = group.size();
  result.parameters = parameter_count(m);
  result.tokens_per_step = config.train.windows_per_step(m.context_length) * m.context_length;

  const RunFolder nowhere{std::filesystem::path()};
  Trainer trainer(config, choices, data, nowhere, &group);
  {
    const auto held = trainer.hold_weights();
    initialize(trainer.model(), config.seed);
  }
  trainer.model()->train();
  double step_seconds = 0;
  for (int64_t i = 0; i < kParallelWarmUpSteps; ++i) {
    step_seconds = seconds_per_step(trainer, choices.device, 1);
  }
  trainer.take_exposed_seconds();
  trainer.take_peak_weight_bytes();
  group.take_traffic();

  std::vector<double> times;
  int64_t n_steps = 0;
  const Stopwatch watch;
  for (;;) {
    const bool enough = std::ssize(times) >= kFewestParallelRounds && watch.seconds() >= seconds;
    const auto wanted = std::max<int64_t>(1, std::llround(kRoundSeconds / step_seconds));
    const int64_t n = agree_on_steps(group, enough ? 0 : wanted, should_stop && should_stop());
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    step_seconds = seconds_per_step(trainer, choices.device, n);
    times.push_back(step_seconds);
    n_steps += n;
  }
  const auto steps = static_cast<double>(n_steps);
  const ProcessGroup::Traffic traffic = group.take_traffic();
  result.rounds = std::ssize(times);
  result.exposed_seconds = trainer.take_exposed_seconds() / steps;
  result.exchange_seconds = traffic.seconds / steps;
  result.bytes_per_step = traffic.bytes / n_steps;
  result.weight_bytes = trainer.take_peak_weight_bytes();
  result.moment_bytes = trainer.moment_bytes();
  result.peak_memory_bytes = peak_memory_bytes(choices.device);
  result.step_seconds = measured(times);
  for (double& time : times) time = static_cast<double>(result.tokens_per_step) / time;
  result.tokens_per_second = measured(times);
  return result;
}

}  // namespace tril
