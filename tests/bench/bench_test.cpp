// What `tril bench` measures: that its parts add up, and that they are the step's own.

#include "tril/bench/bench.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "support/catch.h"
#include "support/tiny_run.h"
#include "tril/base/error.h"
#include "tril/bench/phase_clock.h"
#include "tril/model/loss.h"
#include "tril/model/step_phase.h"

using namespace tril;
using namespace tril::testing;

namespace {

void nap() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

double total(const std::map<std::string, double>& seconds) {
  double sum = 0;
  for (const auto& [name, part] : seconds) sum += part;
  return sum;
}

RunConfig tiny_bench_config() {
  RunConfig config;
  config.model = tiny_config();
  config.train.batch_size = 2;
  config.train.steps = 1000;
  return config;
}

struct TinyBench {
  TempDir folder;
  RunConfig config = tiny_bench_config();
  ResolvedChoices choices;
  TrainingData data = synthetic_data(folder / "ids.tokens",
                                     config.model.vocab_size,
                                     config.model.context_length,
                                     config.train.batch_size);
  std::optional<BenchResult> run(const BenchOptions& options) const {
    return run_bench(config, choices, data, options);
  }
};

}  // namespace

TEST_CASE("the products of a step hold every FLOP that is counted outside attention", "[bench]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    for (const Activation activation : {Activation::kGelu, Activation::kSwiglu}) {
      for (const AttentionPath path : {AttentionPath::kFused, AttentionPath::kReference}) {
        ModelConfig model = tiny_config(preset);
        model.activation = activation;
        model.attention = path;
        double flops = 0;
        for (const auto& p : step_products(model, /*batch_size=*/3, /*micro_batches=*/2)) {
          flops += p.flops();
        }
        const auto lct = static_cast<double>(model.n_blocks * model.n_embed * model.context_length);
        const auto tokens = static_cast<double>(3 * 2 * model.context_length);
        CHECK(flops == Approx(tokens * (flops_per_token(model) - 6 * lct)));
      }
    }
  }
}

TEST_CASE("the head's product is cut into the chunks of the loss", "[bench]") {
  ModelConfig model = tiny_config();
  model.vocab_size = 50304;  // 512 rows at a time
  model.context_length = 100;
  const auto products = step_products(model, /*batch_size=*/13, /*micro_batches=*/1);  // 1300 rows
  const auto& last = products.back();
  const auto& head = products[products.size() - 2];
  CHECK((head.rows == 512 && head.count == 2 && head.in == 16 && head.out == 50304));
  CHECK((last.rows == 276 && last.count == 1));
}

TEST_CASE("the time of a part is its own, without the parts inside it", "[bench]") {
  PhaseClock clock(torch::kCPU);
  const auto begin = std::chrono::steady_clock::now();
  {
    const StepPhase forward(kPhaseForward);
    nap();
    {
      const StepPhase attention(kPhaseAttention);
      nap();
      nap();
    }
  }
  nap();
  const auto seconds = clock.seconds();
  const double all =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(seconds.size() == phase_names().size());
  CHECK(seconds.at("forward") >= 0.02);
  CHECK(seconds.at("attention") >= 0.04);
  CHECK(seconds.at("other") >= 0.02);
  CHECK(seconds.at("forward") <= all - 0.06);  // attention's 40 ms are not in it, nor the last nap
  CHECK(seconds.at("loss") == 0);
  CHECK(total(seconds) == Approx(all).margin(0.01));
}

TEST_CASE("attention inside a backward pass is counted as attention", "[bench]") {
  GPT model = tiny_model(tiny_config());
  const torch::Tensor loss = training_loss(model, tiny_ids(2, 8), tiny_ids(2, 8));
  PhaseClock clock(torch::kCPU);
  {
    const StepPhase backward(kPhaseBackward);
    loss.backward();
  }
  const auto seconds = clock.seconds();
  CHECK(seconds.at("attention") > 0);
  CHECK(seconds.at("backward") > 0);
  CHECK(seconds.at("forward") == 0);
}

TEST_CASE("a middle value comes with its range", "[bench]") {
  const Measured odd = measured({3, 1, 2});
  CHECK((odd.median == 2 && odd.low == 1 && odd.high == 3));
  const Measured even = measured({4, 1, 2, 3});
  CHECK((even.median == 2.5 && even.low == 1 && even.high == 4));
  CHECK(measured({}).median == 0);
}

TEST_CASE("a bench measures the trainer's own steps, and its figures agree", "[bench]") {
  const TinyBench bench;
  const auto found = bench.run({.seconds = 0, .new_tokens = 7});
  REQUIRE(found);
  const BenchResult& r = *found;
  CHECK(r.rounds == 3);
  CHECK(r.tokens_per_step == 16);
  CHECK(r.parameters == parameter_count(bench.config.model));
  CHECK(r.tokens_per_second.median == Approx(16 / r.step_seconds.median));
  CHECK(r.flops_per_second.median == Approx(r.flops_per_token * r.tokens_per_second.median));
  CHECK(r.gemm_flops_per_second.at("fp32").low > 0);
  CHECK(r.gemm_flops_per_second.at("bf16").low > 0);
  CHECK(r.share_of_gemm.low > 0);
  for (const char* part : {"data", "forward", "attention", "loss", "backward", "optimizer"}) {
    INFO(part);
    CHECK(r.phase_seconds.at(part) > 0);
  }
  CHECK(total(r.phase_seconds) == Approx(r.observed_step_seconds));
  CHECK(r.peak_memory_bytes > 10'000'000);  // LibTorch alone is more
  CHECK(r.generated_tokens_per_second.median > 0);
  const std::filesystem::directory_iterator files(bench.folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);  // the data; nothing was saved
}

TEST_CASE("a bench stops when it is told to", "[bench]") {
  int asked = 0;
  const auto found = TinyBench().run(
      {.seconds = 1e6, .new_tokens = 0, .should_stop = [&] { return ++asked > 5; }});
  CHECK_FALSE(found);
}

TEST_CASE("a trace holds the parts of a step, in the format of trace viewers", "[bench]") {
  const TinyBench bench;
  const auto file = bench.folder / "trace.json";
  REQUIRE(bench.run({.seconds = 0, .new_tokens = 0, .profile = file}));
  const Json trace = Json::parse(read_text(file));
  std::map<std::string, int> events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.contains("name")) ++events[event.at("name").get<std::string>()];
  }
  for (const char* mark :
       {kPhaseData, kPhaseForward, kPhaseLoss, kPhaseBackward, kPhaseOptimizer}) {
    INFO(mark);
    CHECK(events[mark] == 3);  // three steps
  }
  CHECK(events[kPhaseAttention] == 3 * bench.config.model.n_blocks);
  CHECK(events["aten::addmm"] + events["aten::mm"] + events["mkldnn::_linear_pointwise"] > 0);
}

TEST_CASE("a trace that cannot be written is an error that names the file", "[bench]") {
  const TinyBench bench;
  const auto file = bench.folder / "not there" / "trace.json";
  CHECK_THROWS_AS(bench.run({.seconds = 0, .new_tokens = 0, .profile = file}), ConfigError);
}
