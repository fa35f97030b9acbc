#include "tril/train/spike_policy.h"

#include <cmath>
#include <limits>
#include <string>

#include "support/catch.h"
#include "support/errors.h"
#include "support/tiny_run.h"
#include "tril/base/error.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// A guard fed with numbers.
class GuardTest {
 public:
  GuardTest(OnSpike policy, double z_score) : guard(make_config(policy, z_score), torch::kCPU) {}

  bool is_bad(double loss, bool found_inf = false) {
    return guard
               .observe(torch::tensor(static_cast<float>(loss)),
                        torch::tensor(found_inf ? 1.0F : 0.0F),
                        torch::tensor(++step))
               .item<double>() != 0;
  }
  /// 2 +- 0.1, in turns.
  int warm_up(int n_steps) {
    int n_bad = 0;
    for (int i = 0; i < n_steps; ++i) n_bad += is_bad(i % 2 == 0 ? 2.1 : 1.9) ? 1 : 0;
    return n_bad;
  }

  SpikeGuard guard;
  int64_t step = 0;

 private:
  static TrainConfig make_config(OnSpike policy, double z_score) {
    TrainConfig config;
    config.on_spike = policy;
    config.spike_z_score = z_score;
    return config;
  }
};

constexpr int64_t kTextLength = 2400;
constexpr int64_t kOddBegin = 1200;
constexpr int64_t kOddLength = 16;

/// One easy pattern, and in it a short stretch of another.
std::string spiky_text() {
  std::string text = repeat("abcdefgh", kTextLength / 8);
  text.replace(kOddBegin, kOddLength, "hgfedcbahhgaffee");
  return text;
}

/// A seed by which one of 160 windows meets the odd stretch, when all else is long learnt.
uint64_t seed_with_one_late_spike(const RunConfig& config) {
  for (uint64_t seed = 1; seed < 10'000; ++seed) {
    const WindowSampler sampler(Sampling::kRandom, kTextLength, config.model.context_length, seed);
    std::vector<int64_t> hits;
    for (int64_t g = 0; g < 160; ++g) {
      const int64_t start = sampler.start(g);
      const bool meets =
          start + config.model.context_length >= kOddBegin && start < kOddBegin + kOddLength;
      if (meets) hits.push_back(g);
    }
    if (hits.size() == 1 && hits[0] > 110 && hits[0] < 140) return seed;
  }
  throw std::runtime_error("no such seed");
}

/// One window a step, so that the odd stretch is a step of its own.
RunConfig spiky_config(const TrainingData& data, OnSpike policy) {
  RunConfig config = tiny_run_config(data);
  config.data.sampling = Sampling::kRandom;
  config.train.batch_size = 1;
  config.train.steps = 160;
  config.train.on_spike = policy;
  config.train.spike_z_score = 4;
  config.checkpoint.interval = 20;
  config.checkpoint.keep_last = 0;
  config.seed = seed_with_one_late_spike(config);
  return config;
}

}  // namespace

TEST_CASE("a spike is a loss far above the recent ones, by their own spread", "[train][spike]") {
  GuardTest test(OnSpike::kStop, 6);
  CHECK(test.warm_up(200) == 0);
  // The deviation is 0.1 around 2: 2.5 is five of them, 2.7 seven.
  CHECK_FALSE(test.is_bad(2.5));
  test.warm_up(200);
  CHECK(test.guard.fatal_step() == 0);
  CHECK(test.is_bad(2.7));
  CHECK(test.guard.fatal_step() == 402);
  CHECK_FALSE(test.is_bad(0.1));  // a loss that falls is none
}

TEST_CASE("mean and deviation by hand", "[train][spike]") {
  GuardTest test(OnSpike::kSkip, 1000);
  for (const double loss : {1.0, 2.0, 4.0, 5.0}) test.is_bad(loss);
  CheckpointState state;
  test.guard.store(state);
  CHECK(state.loss_count == 4);
  CHECK(state.loss_mean.value() == Approx(3.0));  // (1 + 2 + 4 + 5) / 4
  CHECK(state.loss_variance.value() == Approx((4 + 1 + 1 + 4) / 4.0));
  // From 50 on, a new loss has a weight of 1/50.
  GuardTest later(OnSpike::kSkip, 1000);
  for (int i = 0; i < 100; ++i) later.is_bad(1.0);
  later.is_bad(2.0);
  later.guard.store(state);
  CHECK(state.loss_mean.value() == Approx(1.02));
  CHECK(state.loss_variance.value() == Approx(0.02 * 0.98));
}

TEST_CASE("the first steps are no spikes, whatever they do", "[train][spike]") {
  GuardTest test(OnSpike::kStop, 2);
  for (int64_t i = 0; i < SpikeGuard::kWindow - 1; ++i) CHECK_FALSE(test.is_bad(2));
  CHECK_FALSE(test.is_bad(50));
  CHECK(test.guard.fatal_step() == 0);
}

TEST_CASE("a loss that hardly moves is not full of spikes", "[train][spike]") {
  GuardTest test(OnSpike::kStop, 6);
  for (int i = 0; i < 200; ++i) test.is_bad(1.0 + 1e-6 * (i % 2));
  CHECK_FALSE(test.is_bad(1.05));  // below 6 x kLeastDeviation
  CHECK(test.is_bad(1.07));
}

TEST_CASE("what is not finite is bad at once and leaves the mean alone", "[train][spike]") {
  for (const double z_score : {0.0, 6.0}) {
    GuardTest test(OnSpike::kSkip, z_score);
    CHECK(test.is_bad(kNan));
    CHECK(test.is_bad(std::numeric_limits<double>::infinity()));
    CHECK(test.is_bad(2.0, /*found_inf=*/true));  // a gradient that overflowed
    CHECK_FALSE(test.is_bad(2.0));
    CHECK(test.guard.take_bad_steps() == 3);
    CHECK(test.guard.take_bad_steps() == 0);
    CheckpointState state;
    test.guard.store(state);
    CHECK(state.loss_count == (z_score > 0 ? 1 : 0));
    if (z_score > 0) CHECK(state.loss_mean.value() == Approx(2.0));
  }
}

TEST_CASE("stop ends at the first bad step, skip at the 21st in a row", "[train][spike]") {
  GuardTest stop(OnSpike::kStop, 0);
  stop.is_bad(2);
  stop.is_bad(kNan);
  stop.is_bad(kNan);
  CHECK(stop.guard.fatal_step() == 2);

  GuardTest skip(OnSpike::kSkip, 0);
  for (int round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < SpikeGuard::kMostInARow; ++i) skip.is_bad(kNan);
    CHECK(skip.guard.fatal_step() == 0);
    skip.is_bad(2);  // a good one between: counting begins anew
  }
  for (int64_t i = 0; i <= SpikeGuard::kMostInARow; ++i) skip.is_bad(kNan);
  CHECK(skip.guard.fatal_step() == 3 * 21 + 21);
}

TEST_CASE("a guard goes on from a checkpoint as if it had never stopped",
          "[train][spike][resume]") {
  GuardTest straight(OnSpike::kSkip, 4);
  GuardTest first(OnSpike::kSkip, 4);
  straight.warm_up(61);
  first.warm_up(61);
  for (auto* test : {&straight, &first}) test->is_bad(kNan);
  CheckpointState state;
  first.guard.store(state);
  CHECK(state.bad_streak == 1);
  // Through the file: doubles come back exactly.
  state = state_from_json(Json::parse(dump_json(state_to_json(state))), "state.json");
  GuardTest second(OnSpike::kSkip, 4);
  second.guard.restore(state);
  for (int i = 0; i < 100; ++i) {
    const double loss = 2 + 0.1 * (i % 3) + (i % 17 == 0 ? 0.5 : 0);
    CHECK(straight.is_bad(loss) == second.is_bad(loss));
  }
  CheckpointState a, b;
  straight.guard.store(a);
  second.guard.store(b);
  CHECK(state_to_json(a) == state_to_json(b));
}

TEST_CASE("a run without the rule stores nothing of it", "[train][spike]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 10));
  TinyRun run(tiny_run_config(data), data, dir / "run");
  run.start_and_run();
  const std::string state = read_text(run.folder.latest().value().folder / "state.json");
  CHECK(state.find("loss_mean") == std::string::npos);
  CHECK(state.find("bad_streak") == std::string::npos);
}

TEST_CASE("a spike in the data stops, is skipped, or is rewound", "[train][spike]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), spiky_text());
  // Where it is: the rule alone, on a run that takes no notice.
  TinyRun stop(spiky_config(data, OnSpike::kStop), data, dir / "stop");
  const std::string message = message_of<DivergedError>([&] { stop.start_and_run(); });
  CAPTURE(message);
  REQUIRE_THAT(message, ContainsSubstring("the loss is a spike"));
  const int64_t spike = std::stoll(message.substr(5));
  REQUIRE(spike > SpikeGuard::kWindow);
  REQUIRE(spike < 150);
  const auto steps_before = stop.saved_steps();
  REQUIRE_FALSE(steps_before.empty());
  CHECK(steps_before.back() < spike);
  CHECK(Checkpoint::open(stop.folder.latest()->folder).verify().empty());

  TinyRun skip(spiky_config(data, OnSpike::kSkip), data, dir / "skip");
  CHECK(skip.start_and_run() == TrainOutcome::kFinished);
  CHECK(skip.trainer.state().windows_seen == 160);  // the bad window is used up
  CHECK(skip.losses().at(static_cast<size_t>(spike) - 1) > 1);

  TinyRun rewound(spiky_config(data, OnSpike::kRewind), data, dir / "rewind");
  CHECK(rewound.start_and_run() == TrainOutcome::kFinished);
  CHECK(rewound.trainer.state().step == 160);
  // From the checkpoint before the spike on, with the windows that follow the spike.
  CHECK(rewound.trainer.state().windows_seen >= 160 + spike - steps_before.back());
  const auto losses = rewound.losses();
  REQUIRE(losses.size() == 160);  // metrics were cut back with it
  for (int64_t step = 1; step <= steps_before.back(); ++step) {
    CHECK(losses.at(static_cast<size_t>(step) - 1) ==
          skip.losses().at(static_cast<size_t>(step) - 1));
  }
}

TEST_CASE("a run with skips or rewinds resumes exactly", "[train][spike][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), spiky_text());
  const auto policy = GENERATE(OnSpike::kSkip, OnSpike::kRewind);
  CAPTURE(enum_name(policy));
  const std::string name(enum_name(policy));
  TinyRun straight(spiky_config(data, policy), data, dir / (name + "_straight"));
  straight.start_and_run();
  // Cut at every checkpoint but the last: each begins anew from there in a folder of its own.
  for (const auto& entry : straight.folder.list()) {
    if (entry.step == 160) continue;
    CAPTURE(entry.step);
    TinyRun resumed(spiky_config(data, policy), data, dir / (name + std::to_string(entry.step)));
    fs::copy(
        entry.folder, resumed.folder.checkpoint_folder(entry.step), fs::copy_options::recursive);
    CHECK(resumed.resume_and_run() == TrainOutcome::kFinished);
    CHECK(read_text(resumed.folder.latest()->folder / "model.safetensors") ==
          read_text(straight.folder.latest()->folder / "model.safetensors"));
    CHECK(resumed.trainer.state().windows_seen == straight.trainer.state().windows_seen);
  }
}

TEST_CASE("a rewind without a checkpoint, and too many of them, end the run", "[train][spike]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 10));
  RunConfig config = tiny_run_config(data);
  config.train.on_spike = OnSpike::kRewind;
  config.optimizer.learning_rate = 1e38;  // not finite from step 2 on
  TinyRun none(config, data, dir / "none");
  CHECK_THAT(message_of<DivergedError>([&] { none.start_and_run(); }),
             ContainsSubstring("no checkpoint to go back to"));

  config.optimizer.learning_rate = 1e-3;
  config.train.steps = 5;
  TinyRun run(config, data, dir / "run");
  run.start_and_run();
  run.config.train.steps = 10;
  TinyRun poisoned(run.config, data, dir / "run");
  // Weights that give no finite loss, in the checkpoint itself.
  {
    const torch::NoGradGuard no_grad;
    run.trainer.model()->final_norm->weight.fill_(kNan);
    AdamW optimizer(unique_parameters(*run.trainer.model()), config.optimizer);
    const CheckpointState state = run.trainer.state();
    fs::remove_all(run.folder.checkpoints());
    save_checkpoint(run.folder.checkpoint_folder(5),
                    {.parameters = unique_parameters(*run.trainer.model()),
                     .optimizer = optimizer.state(),
                     .state = state,
                     .config = to_json(config),
                     .tokenizer = data.tokenizer->to_json()});
  }
  poisoned.trainer.resume(Checkpoint::open(poisoned.folder.latest()->folder));
  CHECK_THAT(message_of<DivergedError>([&] { poisoned.trainer.run(); }),
             ContainsSubstring("bad again after 10 rewinds"));
  CHECK(poisoned.saved_steps() == std::vector<int64_t>{5});
}
