#include "tril/train/trainer.h"

#include <cmath>
#include <limits>
#include <string>

#include "support/catch.h"
#include "support/errors.h"
#include "support/tensor_matchers.h"
#include "support/tiny_run.h"
#include "tril/base/error.h"
#include "tril/evaluate/evaluator.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

using Steps = std::vector<int64_t>;

/// A tiny text and a config for it, to be changed; runs go into `dir`.
struct TrainTest {
  explicit TrainTest(const std::string& validation = "")
      : data(tiny_data(dir.path(), repeat(kTinyText, 10), validation)),
        config(tiny_run_config(data)) {}
  TempDir dir;
  TrainingData data;
  RunConfig config;
};

/// The same with a validation text.
struct ValidatedTrainTest : TrainTest {
  ValidatedTrainTest() : TrainTest(repeat(kTinyText, 2)) {}
};

void poison(GPT& model) {
  const torch::NoGradGuard no_grad;
  model->token_embedding->weight.fill_(std::numeric_limits<float>::quiet_NaN());
}

std::vector<torch::Tensor> gradients(GPT& model) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : model->parameters()) result.push_back(parameter.grad());
  return result;
}

}  // namespace

TEST_CASE("a fresh model's first loss is near ln V", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 10));
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    RunConfig config = tiny_run_config(data);
    config.model = tiny_config(preset);
    config.model.vocab_size = data.tokenizer->vocab_size();
    config.train.steps = 1;
    TinyRun run(config, data, dir / std::to_string(static_cast<int>(preset)));
    run.start_and_run();
    const double ln_v = std::log(static_cast<double>(config.model.vocab_size));
    CHECK(run.losses().at(0) == Approx(ln_v).epsilon(0.03));
  }
}

TEST_CASE("a repeating text is learned", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 20), repeat(kTinyText, 2));
  RunConfig config = tiny_run_config(data);
  config.train.steps = 150;
  config.train.batch_size = 8;
  const auto precision =
      GENERATE(as<torch::ScalarType>{}, torch::kFloat32, torch::kBFloat16, torch::kFloat16);
  CAPTURE(precision);
  TinyRun run(config, data, dir / "run", precision);
  CHECK(run.start_and_run() == TrainOutcome::kFinished);
  const auto losses = run.losses();
  CHECK(losses.front() > 2.4);
  CHECK(losses.back() < 0.8);  // "the" may be followed by four words: it stays above 0
  CHECK(run.trainer.state().validation_loss.value() < 0.9);
}

TEST_CASE("one window is learned by heart", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), "abcdefgha");  // T + 1 tokens
  RunConfig config = tiny_run_config(data);
  config.train.batch_size = 1;
  config.train.steps = 60;
  TinyRun run(config, data, dir / "run");
  run.start_and_run();
  CHECK(run.losses().back() < 0.05);
}

TEST_CASE("batch size times accumulation is one large batch", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 10));
  const auto config_of = [&](int64_t batch_size, int64_t accumulation, int64_t steps) {
    RunConfig config = tiny_run_config(data);
    config.optimizer.learning_rate = 1e-3;
    config.optimizer.grad_clip = 0.1;  // clips: the norm is larger
    config.train.batch_size = batch_size;
    config.train.accumulation = accumulation;
    config.train.steps = steps;
    return config;
  };
  TinyRun whole(config_of(8, 1, 1), data, dir / "whole");
  whole.start_and_run();
  TinyRun whole_long(config_of(8, 1, 100), data, dir / "whole_long");
  whole_long.start_and_run();
  CHECK(whole.metrics().at(0).at("grad_norm").get<double>() > 0.1);

  for (const int64_t accumulation : {2, 8}) {
    CAPTURE(accumulation);
    const int64_t batch_size = 8 / accumulation;
    const std::string name = std::to_string(accumulation);
    TinyRun parts(config_of(batch_size, accumulation, 1), data, dir / name);
    parts.start_and_run();
    CHECK(parts.trainer.state().windows_seen == 8);
    CHECK(parts.trainer.state().tokens_seen == 64);
    CHECK(parts.losses().at(0) == Approx(whole.losses().at(0)).epsilon(1e-6));
    CHECK(parts.metrics().at(0).at("grad_norm").get<double>() ==
          Approx(whole.metrics().at(0).at("grad_norm").get<double>()).epsilon(1e-6));
    const auto expected = gradients(whole.trainer.model());
    const auto found = gradients(parts.trainer.model());
    for (size_t i = 0; i < expected.size(); ++i) CHECK_CLOSE(found[i], expected[i], 1e-6);
    // The first AdamW step magnifies round-off; it stays below a tenth of the learning rate.
    const auto weights = whole.trainer.model()->parameters();
    const auto other = parts.trainer.model()->parameters();
    for (size_t i = 0; i < weights.size(); ++i) CHECK_CLOSE(other[i], weights[i], 1e-4);

    TinyRun parts_long(config_of(batch_size, accumulation, 100), data, dir / (name + "_long"));
    parts_long.start_and_run();
    for (size_t i = 0; i < 100; ++i) {
      CAPTURE(i);
      CHECK(parts_long.losses().at(i) == Approx(whole_long.losses().at(i)).margin(1e-5));
    }
  }
}

TEST_CASE_METHOD(TrainTest, "tokens_per_step is another way to say accumulation", "[train]") {
  config.train.accumulation = 3;
  TinyRun one(config, data, dir / "one");
  one.start_and_run();
  config.train.accumulation = 1;
  config.train.tokens_per_step = 4 * 8 * 3;
  TinyRun other(config, data, dir / "other");
  other.start_and_run();
  CHECK(one.losses() == other.losses());
  CHECK(other.trainer.state().tokens_seen == 10 * 4 * 8 * 3);
}

TEST_CASE_METHOD(TrainTest, "the first step of a warm-up changes the weights", "[train]") {
  config.schedule.warmup_steps = 10;
  config.train.steps = 1;
  TinyRun run(config, data, dir / "run");
  run.trainer.start();
  const torch::Tensor before = run.trainer.model()->token_embedding->weight.detach().clone();
  run.trainer.run();
  CHECK(run.metrics().at(0).at("learning_rate").get<double>() == Approx(1e-2 / 11));
  const torch::Tensor moved = (run.trainer.model()->token_embedding->weight - before).abs().max();
  // AdamW's first step is the learning rate wherever there is a gradient.
  CHECK(moved.item<double>() == Approx(1e-2 / 11).epsilon(0.01));
}

TEST_CASE_METHOD(ValidatedTrainTest,
                 "metrics have a line per logged step and per evaluation",
                 "[train]") {
  config.train.log_interval = 4;
  config.train.eval_interval = 5;
  config.train.steps = 11;
  TinyRun run(config, data, dir / "run");
  // What an earlier run left is not part of this one.
  write_text(run.folder.metrics_path(), "{\"step\":1,\"loss\":9}\n");
  run.start_and_run();

  Steps logged;
  for (const Json& line : run.metrics()) {
    logged.push_back(line.at("step").get<int64_t>());
    CHECK(line.size() == 9);
    CHECK(line.at("memory_bytes").get<int64_t>() > 1'000'000);
    CHECK(line.at("tokens") == 32 * line.at("step").get<int64_t>());
    CHECK(line.at("perplexity").get<double>() ==
          Approx(std::exp(line.at("loss").get<double>())).epsilon(1e-12));
    CHECK(line.at("learning_rate") == 1e-2);
    CHECK(line.at("grad_norm").get<double>() > 0);
    CHECK(line.at("tokens_per_second").get<double>() > 0);
    CHECK(line.at("elapsed_seconds").get<double>() > 0);
  }
  CHECK(logged == Steps{4, 8, 11});  // and the last one

  Steps evaluated;
  for (const Json& line : run.metrics(/*evaluations=*/true)) {
    evaluated.push_back(line.at("step").get<int64_t>());
    CHECK(line.at("event") == "eval");
    CHECK(line.at("tokens") == data.validation->size() - 1);
    CHECK(line.at("validation_perplexity").get<double>() ==
          Approx(std::exp(line.at("validation_loss").get<double>())).epsilon(1e-12));
  }
  CHECK(evaluated == Steps{5, 10, 11});
}

TEST_CASE("the logged validation loss is that of the saved model", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 10), repeat(kTinyText, 2));
  TinyRun run(tiny_run_config(data), data, dir / "run");
  run.start_and_run();
  const Checkpoint checkpoint = Checkpoint::open(run.folder.latest().value().folder);
  GPT model(run.config.model);
  checkpoint.load_parameters(unique_parameters(*model));
  const auto result = evaluate(model, *data.validation, *data.tokenizer, {}).value();
  CHECK(checkpoint.state().validation_loss == result.loss());
  CHECK(run.metrics(true).at(0).at("validation_loss") == result.loss());
  CHECK(checkpoint.state().evaluated_step == 10);
  CHECK(checkpoint.state().step == 10);
  CHECK(checkpoint.state().precision == "fp32");
  CHECK(checkpoint.state().train_fingerprint == data.train_fingerprint);
  CHECK(checkpoint.config() == Json(to_json(run.config)));
  CHECK(checkpoint.tokenizer() == Json(data.tokenizer->to_json()));
}

TEST_CASE("an overfitting run keeps its best and its last two checkpoints", "[train]") {
  const TempDir dir;
  // The validation text is one that the training text teaches nothing about.
  const TrainingData data =
      tiny_data(dir.path(), repeat("abcdefgh", 12), repeat("hgfedcba", 4) + "aabbccdd");
  RunConfig config = tiny_run_config(data);
  config.train.steps = 60;
  config.train.eval_interval = 5;
  config.checkpoint.interval = 10;
  config.checkpoint.keep_last = 2;
  TinyRun run(config, data, dir / "run");
  run.start_and_run();

  double best = std::numeric_limits<double>::infinity();
  int64_t best_step = 0;
  for (const Json& line : run.metrics(true)) {
    const double loss = line.at("validation_loss").get<double>();
    if (loss < best) {
      best = loss;
      best_step = line.at("step").get<int64_t>();
    }
  }
  REQUIRE(best_step < 50);  // it did overfit
  CHECK(run.saved_steps() == Steps{best_step, 50, 60});
  const CheckpointState last = Checkpoint::open(run.folder.choose("latest").folder).state();
  CHECK(last.step == 60);
  CHECK(last.best_step == best_step);
  CHECK(last.best_validation_loss == best);
  CHECK(last.validation_loss.value() > best);
  const CheckpointState kept = Checkpoint::open(run.folder.choose("best").folder).state();
  CHECK(kept.step == best_step);
  CHECK(kept.validation_loss == best);
}

TEST_CASE_METHOD(TrainTest, "without validation a run trains and saves", "[train]") {
  config.train.eval_interval = 2;
  config.checkpoint.interval = 4;
  TinyRun run(config, data, dir / "run");
  CHECK(run.start_and_run() == TrainOutcome::kFinished);
  CHECK(run.saved_steps() == Steps{8, 10});
  CHECK(run.metrics(true).empty());
  CHECK_FALSE(run.trainer.state().validation_loss);
}

TEST_CASE_METHOD(TrainTest, "checkpoints come by time too", "[train]") {
  config.train.steps = 4;
  config.checkpoint.interval_minutes = kNoTime;
  config.checkpoint.keep_last = 0;
  TinyRun run(config, data, dir / "often");
  run.start_and_run();
  CHECK(run.saved_steps() == Steps{1, 2, 3, 4});
  config.checkpoint.interval_minutes = 1000;
  TinyRun seldom(config, data, dir / "seldom");
  seldom.start_and_run();
  CHECK(seldom.saved_steps() == Steps{4});
}

TEST_CASE_METHOD(TrainTest,
                 "a time budget saves, stops, and the run goes on from there",
                 "[train]") {
  config.train.max_minutes = kNoTime;
  TinyRun run(config, data, dir / "run");
  CHECK(run.start_and_run() == TrainOutcome::kBudget);
  CHECK(run.trainer.state().step == 1);
  CHECK(run.saved_steps() == Steps{1});
  run.config.train.max_minutes = 0;
  CHECK(run.trainer.run() == TrainOutcome::kFinished);
  CHECK(run.trainer.state().step == 10);
  CHECK(run.trainer.run() == TrainOutcome::kFinished);  // nothing left to do
  CHECK(run.metrics().size() == 10);
}

TEST_CASE_METHOD(TrainTest,
                 "a poisoned run names its first bad step and leaves the last checkpoint",
                 "[train]") {
  config.train.max_minutes = kNoTime;
  // Not read at every step: the error comes later, and still names the right one.
  config.train.log_interval = 100;
  config.train.steps = 9;
  TinyRun run(config, data, dir / "run");
  run.trainer.start();
  for (int i = 0; i < 3; ++i) run.trainer.run();
  REQUIRE(run.saved_steps() == Steps{2, 3});
  poison(run.trainer.model());
  run.config.train.max_minutes = 0;
  CHECK_THAT(message_of<DivergedError>([&] { run.trainer.run(); }), ContainsSubstring("step 4:"));
  CHECK(run.trainer.state().step == 9);
  CHECK(run.saved_steps() == Steps{2, 3});
  CHECK(Checkpoint::open(run.folder.latest().value().folder).verify().empty());
}

TEST_CASE_METHOD(TrainTest,
                 "a sample of a diverged model is a divergence, not a damaged checkpoint",
                 "[train]") {
  config.train.log_interval = 100;
  config.train.sample_interval = 1;
  TinyRun run(config, data, dir / "run");
  run.trainer.start();
  poison(run.trainer.model());
  CHECK_THAT(message_of<DivergedError>([&] { run.trainer.run(); }), ContainsSubstring("step 1"));
}

TEST_CASE_METHOD(TrainTest,
                 "weights ruined by a huge learning rate never become a checkpoint",
                 "[train]") {
  config.optimizer.learning_rate = 1e38;
  config.checkpoint.interval = 1;
  TinyRun run(config, data, dir / "run");
  // The gradient of step 1 is finite; what it does to the weights is not.
  const auto message = message_of<DivergedError>([&] { run.start_and_run(); });
  CHECK_THAT(message, ContainsSubstring("step 1:"));
  CHECK_THAT(message, ContainsSubstring("learning_rate"));
  CHECK(run.saved_steps().empty());

  config.checkpoint.interval = 0;
  TinyRun later(config, data, dir / "later");
  CHECK_THAT(message_of<DivergedError>([&] { later.start_and_run(); }),
             ContainsSubstring("step 2:"));
  CHECK(later.saved_steps().empty());
}

TEST_CASE_METHOD(ValidatedTrainTest,
                 "dropout changes the training loss and not the evaluation",
                 "[train]") {
  config.train.steps = 1;
  config.optimizer.learning_rate = 1e-30;  // the weights stay
  TinyRun plain(config, data, dir / "plain");
  plain.start_and_run();
  config.model.dropout = 0.5;
  TinyRun dropped(config, data, dir / "dropped");
  dropped.start_and_run();
  CHECK(plain.losses().at(0) != dropped.losses().at(0));
  CHECK(plain.trainer.state().validation_loss == dropped.trainer.state().validation_loss);
}

TEST_CASE_METHOD(ValidatedTrainTest,
                 "samples, evaluations and saves do not disturb the training",
                 "[train]") {
  config.model.dropout = 0.2;
  TinyRun plain(config, data, dir / "plain");
  plain.start_and_run();
  config.train.sample_interval = 1;
  config.train.sample_prompt = "the ";
  config.train.sample_tokens = 12;
  config.train.eval_interval = 1;
  config.checkpoint.interval = 1;
  TinyRun busy(config, data, dir / "busy");
  busy.start_and_run();
  CHECK(plain.losses() == busy.losses());
  CHECK(plain.losses().size() == 10);
}

TEST_CASE_METHOD(TrainTest, "the seed decides a run", "[train]") {
  config.model.dropout = 0.1;
  TinyRun first(config, data, dir / "first");
  first.start_and_run();
  torch::manual_seed(99);
  TinyRun again(config, data, dir / "again");
  again.start_and_run();
  CHECK(first.losses() == again.losses());
  config.seed = 8;
  TinyRun other(config, data, dir / "other");
  other.start_and_run();
  CHECK(first.losses() != other.losses());
}
