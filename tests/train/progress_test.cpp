// The status line, and what one line of metrics costs.

#include "tril/train/progress.h"

#include <chrono>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/json.h"
#include "tril/plot/tensorboard.h"
#include "tril/train/metrics.h"

using namespace tril;
using namespace tril::testing;

TEST_CASE("a status line drops its least important fields where room is short", "[train]") {
  const std::vector<StatusField> fields{
      {"step 10/20", 0}, {"loss 1.5", 0}, {"lr 1e-3", 2}, {"9 tokens/s", 1}, {"ETA 3 s", 0}};
  CHECK(join_status(fields, 0) == "step 10/20  loss 1.5  lr 1e-3  9 tokens/s  ETA 3 s");
  CHECK(join_status(fields, 200) == join_status(fields, 0));
  CHECK(join_status(fields, 48) == "step 10/20  loss 1.5  9 tokens/s  ETA 3 s");
  CHECK(join_status(fields, 30) == "step 10/20  loss 1.5  ETA 3 s");
  CHECK(join_status(fields, 15) == "step 10/20  los");
  CHECK(join_status({}, 10) == "");
}

TEST_CASE("durations, counts and sizes are written as a person would", "[train]") {
  CHECK(format_duration(59.4) == "59 s");
  CHECK(format_duration(3599) == "59 min 59 s");
  CHECK(format_duration(90000) == "1 d 01 h");
  CHECK(format_duration(-1) == "?");
  CHECK(format_count(9999) == "9999");
  CHECK(format_count(15200) == "15.2 k");
  CHECK(format_bytes(2.5e6) == "2.5 MB");
  CHECK(format_bytes(212e6) == "212 MB");
  CHECK(format_bytes(1.35e9) == "1.35 GB");
}

TEST_CASE("metrics and TensorBoard's file hold the same numbers and are cut alike", "[train]") {
  const TempDir dir;
  const auto jsonl = dir / "metrics.jsonl";
  const auto events = dir / "tensorboard/events.out.tfevents.tril";
  {
    MetricsWriter writer(jsonl, 0, events);
    for (int64_t step = 1; step <= 4; ++step) {
      writer.write(StepMetrics{.step = step,
                               .tokens = 32 * step,
                               .loss = 4.0 / static_cast<double>(step),
                               .learning_rate = 1e-3,
                               .grad_norm = 0.1 * static_cast<double>(step),
                               .tokens_per_second = 1234.5});
    }
    writer.write(EvalMetrics{.step = 4, .validation_loss = 1.1, .tokens = 9, .bits_per_byte = 1.6});
    writer.write("sample", 4, {{"text", "x"}});
  }
  { const MetricsWriter writer(jsonl, 3, events); }  // resumed from step 3

  std::vector<Json> lines;
  std::istringstream text(read_text(jsonl));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  REQUIRE(lines.size() == 3);
  const auto scalars = decode_tensorboard(read_text(events));
  REQUIRE(scalars.size() == 4);  // the header and three steps
  for (size_t i = 0; i < 3; ++i) {
    CHECK(scalars[i + 1].step == lines[i].at("step").get<int64_t>());
    for (const auto& scalar : scalars[i + 1].scalars) {
      const std::string key = scalar.tag.substr(scalar.tag.find('/') + 1);
      INFO(scalar.tag);
      CHECK(scalar.value == static_cast<float>(lines[i].at(key).get<double>()));
    }
  }
}

TEST_CASE("a file that cannot be written is no reason to stop", "[train]") {
  const TempDir dir;
  MetricsWriter writer(dir / "no/such/folder/metrics.jsonl", 0, "/proc/tensorboard/x");
  writer.write(StepMetrics{.step = 1});
  writer.write(EvalMetrics{.step = 1});
  CHECK_FALSE(std::filesystem::exists(dir / "no"));
}

TEST_CASE("a logged step costs microseconds", "[train]") {
  const TempDir dir;
  MetricsWriter writer(dir / "metrics.jsonl", 0, dir / "tb/events.out.tfevents.tril");
  Progress progress({.total_steps = 2000, .flops_per_token = 1e6, .peak_flops = 1e11});
  const auto start = std::chrono::steady_clock::now();
  constexpr int kLines = 1000;
  for (int64_t step = 1; step <= kLines; ++step) {
    writer.write(StepMetrics{.step = step, .tokens = step, .loss = 1.0, .tokens_per_second = 1});
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("one line of metrics.jsonl and TensorBoard: %.1f us\n", 1e6 * seconds / kLines);
  // A step of the quickstart takes 55 ms; 2 % of it are 1.1 ms. Tens of microseconds are usual.
  CHECK(seconds / kLines < 1.1e-3);
}
