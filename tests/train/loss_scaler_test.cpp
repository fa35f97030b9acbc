#include "tril/train/loss_scaler.h"

#include <cmath>
#include <limits>
#include <set>

#include "support/catch.h"
#include "support/errors.h"
#include "support/golden.h"
#include "support/tiny_run.h"
#include "tril/base/error.h"
#include "tril/optim/optimizer.h"
#include "tril/optim/parameters.h"
#include "tril/train/spike_policy.h"

using namespace tril;
using namespace tril::testing;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// One step with a finite loss; returns whether it is left out.
bool left_out(LossScaler& scaler, bool overflows, float loss = 2.0F) {
  return scaler.update(torch::tensor(loss), torch::tensor(overflows ? 1.0F : 0.0F))
             .item<double>() != 0;
}

}  // namespace

TEST_CASE("the loss scale follows torch.amp.GradScaler", "[train][golden]") {
  const Json golden = read_golden("loss_scale");
  const auto overflows = golden.at("overflows").get<std::set<int64_t>>();
  LossScaler scaler(torch::kFloat16, torch::kCPU);
  CHECK(scaler.value() == golden.at("first").get<double>());
  double last = scaler.value();
  Json changes = Json::array();
  for (int64_t step = 1; step <= golden.at("steps").get<int64_t>(); ++step) {
    CHECK(left_out(scaler, overflows.contains(step)) == overflows.contains(step));
    if (scaler.value() == last) continue;
    last = scaler.value();
    changes.push_back({{"step", step}, {"scale", last}});
  }
  CHECK(changes == golden.at("changes"));
  CHECK(scaler.take_overflows() == static_cast<int64_t>(overflows.size()));
  CHECK(scaler.take_overflows() == 0);
}

TEST_CASE("a loss that is not finite, and an overflow without a scale, are not the scale's doing",
          "[train][spike]") {
  LossScaler scaler(torch::kFloat16, torch::kCPU);
  CHECK_FALSE(left_out(scaler, true, kInf));
  CHECK_FALSE(left_out(scaler, true, std::nanf("")));
  int64_t n = 0;
  while (left_out(scaler, true)) ++n;
  CHECK(n == 14);  // 65 536 / 4 -> 1
  CHECK(scaler.value() == LossScaler::kLeastScale);

  SpikeGuard guard(TrainConfig{}, torch::kCPU);
  const torch::Tensor loss = torch::tensor(2.0F), one = torch::tensor(1.0F);
  CHECK(guard.observe(loss, one, torch::tensor(int64_t{1}), one).item<double>() ==
        1);                        // left out, and
  CHECK(guard.fatal_step() == 0);  // nothing is wrong
  CHECK(guard.observe(loss, one, torch::tensor(int64_t{2}), torch::tensor(0.0F)).item<double>() ==
        1);
  CHECK(guard.fatal_step() == 2);
}

TEST_CASE("the loss scale of other precisions is off", "[train]") {
  LossScaler scaler(torch::kBFloat16, torch::kCPU);
  CHECK_FALSE(scaler.scale().defined());
  CHECK_FALSE(scaler.update(torch::tensor(1.0F), torch::tensor(1.0F)).defined());
  CHECK(scaler.take_overflows() == 0);
  CheckpointState state;
  scaler.store(state);
  CHECK_FALSE(state.loss_scale.has_value());
}

TEST_CASE("the loss scale goes through a checkpoint, and a wrong one is refused",
          "[train][checkpoint]") {
  LossScaler scaler(torch::kFloat16, torch::kCPU);
  left_out(scaler, true);
  left_out(scaler, false);
  CheckpointState state;
  scaler.store(state);
  CHECK(state.loss_scale == 32768.0);
  CHECK(state.loss_scale_steps == 1);
  LossScaler other(torch::kFloat16, torch::kCPU);
  other.restore(state_from_json(Json(state_to_json(state)), "state.json"));
  CheckpointState again;
  other.store(again);
  CHECK(again.loss_scale == state.loss_scale);
  CHECK(again.loss_scale_steps == 1);
  for (const double bad : {0.0, -4.0, 0.5, 1e39}) {
    state.loss_scale = bad;
    CHECK_THAT(message_of<CheckpointError>([&] { other.restore(state); }),
               ContainsSubstring("loss_scale"));
  }
}

TEST_CASE("fp16 training: steps that overflow are left out, and the scale comes down",
          "[train][spike]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 20));
  RunConfig config = tiny_run_config(data);
  config.optimizer.learning_rate = 1e-3;
  config.model.tie_embeddings = false;
  TinyRun run(config, data, dir / "run", torch::kFloat16);
  const double large = 500;  // of the head's weights: gradients times 65 536 exceed fp16
  run.trainer.start([&](GPT& model) {
    const torch::NoGradGuard no_grad;
    model->lm_head->weight.mul_(large);
  });
  REQUIRE(run.trainer.run() == TrainOutcome::kFinished);
  const auto lines = run.metrics();
  int64_t n_left_out = 0;
  double scale = LossScaler::kFirstScale;
  for (const Json& line : lines) {
    const double now = line.at("loss_scale").get<double>();
    const bool halved = now == scale / 2;
    CHECK((halved || now == scale));
    CHECK(line.at("grad_norm").is_null() == halved);
    n_left_out += halved ? 1 : 0;
    scale = now;
  }
  CHECK(n_left_out >= 2);
  CHECK(n_left_out < 10);
  const Checkpoint saved = Checkpoint::open(run.folder.latest().value().folder);
  CHECK(saved.state().loss_scale == scale);
  const Optimizer optimizer(unique_parameters(*run.trainer.model()), config.optimizer);
  saved.load_optimizer(optimizer.state());
  const NamedTensor updates = optimizer.state().back();
  REQUIRE(updates.name == "step");
  CHECK(updates.tensor.item<double>() == 10.0 - static_cast<double>(n_left_out));
}

TEST_CASE("fp16 training follows fp32", "[train]") {
  const TempDir dir;
  const TrainingData data = tiny_data(dir.path(), repeat(kTinyText, 20));
  RunConfig config = tiny_run_config(data);
  config.optimizer.learning_rate = 1e-3;
  const OptimizerName optimizer = GENERATE(OptimizerName::kAdamW, OptimizerName::kMuon);
  config.optimizer.name = optimizer;
  config.train.steps = 4;            // later, round-off has grown
  config.optimizer.grad_clip = 0.1;  // clips: the norm is without the scale
  TinyRun exact(config, data, dir / "fp32");
  TinyRun half(config, data, dir / "fp16", torch::kFloat16);
  REQUIRE(exact.start_and_run() == TrainOutcome::kFinished);
  REQUIRE(half.start_and_run() == TrainOutcome::kFinished);
  const auto expected = exact.metrics(), found = half.metrics();
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("step " << i + 1);
    for (const char* key : {"loss", "grad_norm"}) {
      CHECK(found[i].at(key).get<double>() ==
            Approx(expected[i].at(key).get<double>()).epsilon(1e-2));
    }
  }
  CHECK(half.losses() != exact.losses());  // fp16 was really used
}
