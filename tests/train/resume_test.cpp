// The promise: N steps, stop, resume, N steps = 2N steps, bit for bit.

#include <string>

#include "support/catch.h"
#include "support/tiny_run.h"
#include "tril/base/error.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

using Steps = std::vector<int64_t>;
constexpr int64_t kHalf = 7;      // N
constexpr int64_t kWindows = 24;  // of an epoch: floor((203 - 8) / 8)

/// Four texts' worth of tokens, less one: 203.
std::string train_text() {
  return repeat(kTinyText, 4).substr(0, 203);
}

RunConfig resume_config(const TrainingData& data) {
  RunConfig config = tiny_run_config(data);
  config.schedule.name = ScheduleName::kCosine;  // depends on the step
  config.schedule.warmup_steps = 3;
  config.train.steps = 2 * kHalf;
  config.train.batch_size = 2;
  config.train.eval_interval = kHalf;
  config.checkpoint.interval = kHalf;
  config.checkpoint.keep_last = 0;
  return config;
}

/// What a run that was killed after its checkpoint of `step` left behind: that checkpoint, and
/// metrics that go on beyond it and break off in a line.
void copy_killed_run(const RunFolder& from, const fs::path& to, int64_t step) {
  const RunFolder copy(to);
  fs::create_directories(copy.checkpoints());
  fs::copy(from.checkpoint_folder(step), copy.checkpoint_folder(step), fs::copy_options::recursive);
  write_text(copy.metrics_path(), read_text(from.metrics_path()) + "{\"step\":");
}

/// Which of the files that make up a training state differ; "" when all are equal, byte by byte.
std::string different_files(const fs::path& a, const fs::path& b) {
  std::string names;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    if (first_difference(read_text(a / name), read_text(b / name)) != -1) {
      names += std::string(name) + " ";
    }
  }
  return names;
}

/// Lines of metrics without what is measured by the clock.
std::vector<Json> timeless(std::vector<Json> lines) {
  for (Json& line : lines) {
    line.erase("tokens_per_second");
    line.erase("elapsed_seconds");
    line.erase("memory_bytes");
  }
  return lines;
}

void check_same_end(const TinyRun& straight, const TinyRun& resumed) {
  const fs::path a = straight.folder.checkpoint_folder(2 * kHalf);
  const fs::path b = resumed.folder.checkpoint_folder(2 * kHalf);
  CHECK(different_files(a, b) == "");
  CHECK(timeless(straight.metrics()) == timeless(resumed.metrics()));
  CHECK(straight.metrics(true) == resumed.metrics(true));
}

}  // namespace

TEST_CASE("N steps, a kill and N steps are 2N steps, bit for bit", "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text(), repeat(kTinyText, 1));
  const double dropout = GENERATE(0.0, 0.1);
  const int64_t accumulation = GENERATE(1, 3);
  const auto precision =
      GENERATE(as<torch::ScalarType>{}, torch::kFloat32, torch::kBFloat16, torch::kFloat16);
  const Sampling sampling = GENERATE(Sampling::kShuffle, Sampling::kRandom);
  const OptimizerName optimizer = GENERATE(OptimizerName::kAdamW, OptimizerName::kMuon);
  CAPTURE(dropout, accumulation, precision, static_cast<int>(sampling), enum_name(optimizer));

  RunConfig config = resume_config(data);
  config.model.dropout = dropout;
  config.train.accumulation = accumulation;
  config.data.sampling = sampling;
  config.optimizer.name = optimizer;
  TinyRun straight(config, data, dir / "straight", precision);
  REQUIRE(straight.start_and_run() == TrainOutcome::kFinished);
  // The stop is inside an epoch, and an epoch ends after it.
  const int64_t seen = kHalf * 2 * accumulation;
  REQUIRE(seen % kWindows != 0);
  REQUIRE(seen / kWindows < 2 * seen / kWindows);

  copy_killed_run(straight.folder, dir / "resumed", kHalf);
  torch::manual_seed(4242);  // another process: nothing but the checkpoint is left
  TinyRun resumed(config, data, dir / "resumed", precision);
  REQUIRE(resumed.resume_and_run() == TrainOutcome::kFinished);
  check_same_end(straight, resumed);
}

TEST_CASE("a run stopped and resumed after every step ends as the straight one",
          "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text(), repeat(kTinyText, 1));
  RunConfig config = resume_config(data);
  config.model.dropout = 0.1;
  const Preset preset = GENERATE(Preset::kClassic, Preset::kGpt2, Preset::kModern);
  CAPTURE(static_cast<int>(preset));
  apply_preset(config.model, preset);
  TinyRun straight(config, data, dir / "straight");
  straight.start_and_run();

  config.train.max_minutes = kNoTime;
  config.checkpoint.keep_last = 2;
  {
    TinyRun first(config, data, dir / "stopped");
    REQUIRE(first.start_and_run() == TrainOutcome::kBudget);
  }
  for (int64_t step = 2; step < 2 * kHalf; ++step) {
    TinyRun next(config, data, dir / "stopped");
    REQUIRE(next.resume_and_run() == TrainOutcome::kBudget);
    REQUIRE(next.trainer.state().step == step);
  }
  TinyRun last(config, data, dir / "stopped");
  REQUIRE(last.resume_and_run() == TrainOutcome::kFinished);
  check_same_end(straight, last);
}

TEST_CASE("a finished run can be asked for more steps", "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text(), repeat(kTinyText, 1));
  RunConfig config = resume_config(data);
  config.schedule.name = ScheduleName::kConstant;  // the same rates at any length
  TinyRun straight(config, data, dir / "straight");
  straight.start_and_run();
  config.train.steps = kHalf;
  TinyRun half(config, data, dir / "extended");
  REQUIRE(half.start_and_run() == TrainOutcome::kFinished);
  config.train.steps = 2 * kHalf;
  TinyRun extended(config, data, dir / "extended");
  REQUIRE(extended.resume_and_run() == TrainOutcome::kFinished);
  check_same_end(straight, extended);
  // Nothing left to do: nothing changes.
  const auto before = read_text(extended.folder.metrics_path());
  TinyRun again(config, data, dir / "extended");
  CHECK(again.resume_and_run() == TrainOutcome::kFinished);
  CHECK(read_text(extended.folder.metrics_path()) == before);
  CHECK(again.saved_steps() == Steps{kHalf, 2 * kHalf});
}

TEST_CASE("resumed steps use other windows than the first ones", "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text());
  RunConfig config = resume_config(data);
  config.optimizer.learning_rate = 1e-30;  // the loss depends on the windows alone
  config.optimizer.weight_decay = 0;
  TinyRun run(config, data, dir / "run");
  run.start_and_run();
  copy_killed_run(run.folder, dir / "resumed", kHalf);
  TinyRun resumed(config, data, dir / "resumed");
  resumed.resume_and_run();
  const auto losses = resumed.losses();
  for (size_t i = 0; i < kHalf; ++i) CHECK(losses[i] != losses[i + kHalf]);
}

TEST_CASE("an evaluation that a signal cut short is made up for on resume", "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text(), repeat(kTinyText, 1));
  RunConfig config = resume_config(data);
  const int64_t cut_step = kHalf * GENERATE(1, 2);
  CAPTURE(cut_step);
  TinyRun straight(config, data, dir / "straight");
  straight.start_and_run();

  // The checkpoint as it is saved when the signal came during the evaluation of `cut_step`.
  copy_killed_run(straight.folder, dir / "cut", cut_step);
  const RunFolder folder(dir / "cut");
  {
    TinyRun writer(config, data, dir / "writer");
    writer.trainer.resume(Checkpoint::open(folder.checkpoint_folder(cut_step)));
    CheckpointState state = writer.trainer.state();
    const CheckpointState earlier =
        cut_step == kHalf ? CheckpointState{}
                          : Checkpoint::open(straight.folder.checkpoint_folder(kHalf)).state();
    state.evaluated_step = earlier.evaluated_step;
    state.validation_loss = earlier.validation_loss;
    state.best_validation_loss = earlier.best_validation_loss;
    state.best_step = earlier.best_step;
    const Checkpoint source = Checkpoint::open(folder.checkpoint_folder(cut_step));
    AdamW optimizer(unique_parameters(*writer.trainer.model()), config.optimizer);
    source.load_optimizer(optimizer.state());
    save_checkpoint(folder.checkpoint_folder(cut_step),
                    {.parameters = unique_parameters(*writer.trainer.model()),
                     .optimizer = optimizer.state(),
                     .state = state,
                     .config = to_json(config),
                     .tokenizer = data.tokenizer->to_json()});
    std::string metrics;
    for (const Json& line : straight.metrics()) metrics += line.dump() + "\n";
    for (const Json& line : straight.metrics(true)) {
      if (line.at("step") < cut_step) metrics += line.dump() + "\n";
    }
    write_text(folder.metrics_path(), metrics);
  }
  TinyRun resumed(config, data, dir / "cut");
  CHECK(resumed.resume_and_run() == TrainOutcome::kFinished);
  check_same_end(straight, resumed);
  CHECK(different_files(straight.folder.checkpoint_folder(cut_step),
                        folder.checkpoint_folder(cut_step)) == "");
}

TEST_CASE("no run begins or goes on beside checkpoints of later steps", "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text());
  RunConfig config = resume_config(data);
  config.checkpoint.interval = 2;
  TinyRun run(config, data, dir / "run");
  run.start_and_run();
  REQUIRE(run.saved_steps() == Steps{2, 4, 6, 8, 10, 12, 14});
  const std::string metrics = read_text(run.folder.metrics_path());

  config.checkpoint.keep_last = 2;
  TinyRun back(config, data, dir / "run");
  CHECK_THROWS_AS(back.trainer.resume(Checkpoint::open(back.folder.checkpoint_folder(4))),
                  ConfigError);
  CHECK_THROWS_AS(back.trainer.start(), ConfigError);
  CHECK(back.saved_steps().size() == 7);
  CHECK(read_text(run.folder.metrics_path()) == metrics);

  // In a folder of its own it may.
  TinyRun branch(config, data, dir / "branch");
  branch.trainer.resume(Checkpoint::open(run.folder.checkpoint_folder(4)));
  CHECK(branch.trainer.run() == TrainOutcome::kFinished);
  CHECK(branch.losses().back() == run.losses().back());
}

TEST_CASE("metrics are cut back to the checkpoint's step", "[train][resume]") {
  const TempDir dir;
  const fs::path path = dir / "metrics.jsonl";
  const std::string kept =
      "{\"step\":1,\"loss\":2}\n{\"event\":\"eval\",\"step\":2}\n{\"step\":2,\"loss\":1}\n";
  write_text(path,
             kept + "{\"step\":3,\"loss\":1}\nnot json\n[]\n{\"loss\":1}\n{\"step\":\"1\"}\n{\"st");
  { const MetricsWriter writer(path, /*last_step=*/2); }
  CHECK(read_text(path) == kept);
  {
    MetricsWriter writer(path, /*last_step=*/2);
    writer.write(StepMetrics{.step = 3, .loss = 0.5});
  }
  CHECK(read_text(path).starts_with(kept + "{\"step\":3,"));
  { const MetricsWriter writer(path, /*last_step=*/0); }
  CHECK(read_text(path).empty());
}

TEST_CASE("a checkpoint of another shape or without moments is not resumed from",
          "[train][resume]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), train_text());
  RunConfig config = resume_config(data);
  TinyRun run(config, data, dir / "run");
  run.start_and_run();
  const auto latest = Checkpoint::open(run.folder.latest().value().folder);
  config.model.n_blocks = 1;
  TinyRun other(config, data, dir / "other");
  CHECK_THROWS_AS(other.trainer.resume(latest), CheckpointError);
  CHECK(other.trainer.state().step == 0);

  const fs::path folder = run.folder.latest().value().folder;
  Json manifest = Json::parse(read_text(folder / "manifest.json"));
  manifest["files"].erase("optimizer.safetensors");
  write_text(folder / "manifest.json", manifest.dump());
  config.model.n_blocks = 2;
  TinyRun weights_only(config, data, dir / "weights");
  CHECK_THROWS_AS(weights_only.trainer.resume(Checkpoint::open(folder)), CheckpointError);
}
