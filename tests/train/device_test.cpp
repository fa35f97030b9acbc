// Training on a GPU: what can be held without one (no step waits for the device), and hidden tests
// for where there is one: tril_tests "[cuda]".

#include <ATen/record_function.h>

#include <set>
#include <string>
#include <string_view>

#include "support/catch.h"
#include "support/tiny_run.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// Operators whose result the CPU needs before it can go on: on a GPU each waits for the device.
const std::set<std::string> kWaiting = {"aten::_local_scalar_dense",
                                        "aten::nonzero",
                                        "aten::masked_select",
                                        "aten::_unique2",
                                        "aten::_coalesce"};
std::vector<std::string> waited;
int inside_fused_adamw = 0;

/// LibTorch's kernel on the CPU reads each tensor's step count; the one on the GPU does not.
bool is_fused_adamw(const at::RecordFunction& record) {
  return std::string_view(record.name()) == "aten::_fused_adamw_";
}

/// The waiting operators that `work` calls, in order, without those of the AdamW kernel.
template <typename Work>
std::vector<std::string> waits_of(const Work& work) {
  waited.clear();
  const auto begin = [](const at::RecordFunction& record) -> std::unique_ptr<at::ObserverContext> {
    if (is_fused_adamw(record)) ++inside_fused_adamw;
    if (inside_fused_adamw == 0 && kWaiting.contains(record.name())) {
      waited.emplace_back(record.name());
    }
    return nullptr;
  };
  const auto end = [](const at::RecordFunction& record, at::ObserverContext* /*context*/) {
    if (is_fused_adamw(record)) --inside_fused_adamw;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  return waited;
}

RunConfig config_of(const TrainingData& data, OptimizerName optimizer, Preset preset) {
  RunConfig config = tiny_run_config(data);
  const ModelConfig sizes = config.model;
  config.model = tiny_config(preset);
  config.model.vocab_size = sizes.vocab_size;
  config.model.dropout = 0.1;
  config.optimizer.name = optimizer;
  config.train.accumulation = 2;
  return config;
}

}  // namespace

TEST_CASE("a test of waiting sees one", "[train]") {
  const torch::Tensor one = torch::ones({});
  CHECK(waits_of([&] { (void)one.item<double>(); }).size() == 1);
  CHECK(waits_of([&] { (void)(one + 1); }).empty());
}

TEST_CASE("a training step asks the device for no number", "[train]") {
  for (const auto optimizer : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    for (const auto preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
      const TempDir folder;
      const TrainingData data = tiny_data(folder.path(), kTinyText);
      TinyRun run(config_of(data, optimizer, preset), data, folder / "run");
      run.trainer.start();
      run.trainer.model()->train();
      const auto waits = waits_of([&] { run.trainer.train_step(); });
      // On the CPU alone the loss looks at the gradient it is given, to save a multiplication: once
      // per micro-step.
      CHECK(waits == std::vector<std::string>(2, "aten::_local_scalar_dense"));
    }
  }
}

TEST_CASE("a step for a CUDA graph computes what a plain one does, and asks for no number",
          "[train]") {
  const TempDir folder;
  const TrainingData data = tiny_data(folder.path(), repeat(kTinyText, 4));
  RunConfig config = config_of(data, OptimizerName::kAdamW, Preset::kModern);
  config.model.dropout = 0;
  config.train.spike_z_score = 6;
  TinyRun plain(config, data, folder / "plain");
  config.train.cuda_graph = true;
  TinyRun kept(config, data, folder / "kept");  // batches in memory that stays where it is
  CHECK(plain.start_and_run() == TrainOutcome::kFinished);
  CHECK(kept.start_and_run() == TrainOutcome::kFinished);
  CHECK(kept.losses() == plain.losses());
  const auto expected = unique_parameters(*plain.trainer.model()),
             found = unique_parameters(*kept.trainer.model());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(torch::equal(found[i].tensor, expected[i].tensor));
  }
  TinyRun watched(config, data, folder / "watched");
  watched.trainer.start();
  watched.trainer.model()->train();
  CHECK(waits_of([&] { watched.trainer.train_step(); }).size() == 2);  // as above
}

TEST_CASE("a recorded step trains as plain ones do", "[train][cuda]") {
  if (!torch::cuda::is_available()) TRIL_SKIP("no CUDA device here");
  const TempDir folder;
  const TrainingData data = tiny_data(folder.path(), repeat(kTinyText, 4));
  const auto optimizer = GENERATE(OptimizerName::kAdamW, OptimizerName::kMuon);
  const auto precision =
      GENERATE(as<torch::ScalarType>{}, torch::kFloat32, torch::kBFloat16, torch::kFloat16);
  RunConfig config = config_of(data, optimizer, Preset::kModern);
  config.model.dropout = 0;
  const torch::Device gpu(torch::kCUDA, 0);
  TinyRun plain(config, data, folder / "plain", precision, gpu);
  config.train.cuda_graph = true;
  TinyRun recorded(config, data, folder / "recorded", precision, gpu);
  CHECK(plain.start_and_run() == TrainOutcome::kFinished);
  CHECK(recorded.start_and_run() == TrainOutcome::kFinished);
  const auto expected = plain.losses(), found = recorded.losses();
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(found[i] == Approx(expected[i]).epsilon(2e-3));
  }
}

TEST_CASE("a GPU trains as the CPU does", "[train][cuda]") {
  if (!torch::cuda::is_available()) TRIL_SKIP("no CUDA device here");
  const TempDir folder;
  const TrainingData data = tiny_data(folder.path(), kTinyText);
  for (const auto optimizer : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    RunConfig config = config_of(data, optimizer, Preset::kModern);
    config.model.dropout = 0;
    const std::string name(enum_name(optimizer));
    TinyRun cpu(config, data, folder / (name + "_cpu"));
    TinyRun gpu(
        config, data, folder / (name + "_gpu"), torch::kFloat32, torch::Device(torch::kCUDA, 0));
    CHECK(cpu.start_and_run() == TrainOutcome::kFinished);
    CHECK(gpu.start_and_run() == TrainOutcome::kFinished);
    const auto expected = cpu.losses(), found = gpu.losses();
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      INFO(name << ", step " << i + 1);
      // Muon's iteration runs in bf16 there, and every step builds on the one before.
      CHECK(found[i] ==
            Approx(expected[i]).epsilon(optimizer == OptimizerName::kMuon ? 3e-2 : 2e-3));
    }
  }
}
