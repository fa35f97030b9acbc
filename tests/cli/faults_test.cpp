// Runs that are cut off: by kill -9 at any instant, by signals in awkward places, by another run.

#include <csignal>

#include <random>

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

std::string final_weights(const Workspace& workspace, const std::string& run, int64_t step) {
  return read_text(checkpoint_folder(workspace / run, step) / "model.safetensors");
}

int64_t newest_step(const Workspace& workspace, const std::string& run) {
  const auto names = names_in(workspace / (run + "/checkpoints"));
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (name->starts_with("step_")) return std::stoll(name->substr(5));
  }
  return 0;
}

tril::Json state_of(const Workspace& workspace, const std::string& run, int64_t step) {
  return tril::Json::parse(read_text(checkpoint_folder(workspace / run, step) / "state.json"));
}

}  // namespace

TEST_CASE("a run killed at fifty random instants ends as if it had not been",
          "[cli][faults][slow]") {
  const Workspace workspace;
  constexpr int64_t kSteps = 400;
  constexpr int kKills = 50;
  // A save at every step: most instants fall into one.
  const std::string train =
      "train --config tiny.json --set checkpoint.interval=1 --set train.eval_interval=7 "
      "--set model.dropout=0.1 --set train.steps=" +
      std::to_string(kSteps) + " --run-dir ";
  workspace.require(train + "straight");

  std::mt19937 random(1);  // the instants themselves are never the same twice
  std::uniform_int_distribution<int> milliseconds(0, 400);
  int n_kills = 0;
  int n_finished = 0;
  int n_resumed = 0;
  while (n_kills < kKills) {
    const auto run = workspace.start(train + "run --resume=auto");
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + milliseconds(random)));
    const bool finished = !run->is_running();
    if (!finished) run->send(SIGKILL);
    const auto result = run->wait();
    INFO("kill " << n_kills << "\n" << result.err);
    if (result.err.find("resuming from") != std::string::npos) ++n_resumed;
    if (finished) {
      REQUIRE(result.exit_code == 0);
      CHECK(final_weights(workspace, "run", kSteps) ==
            final_weights(workspace, "straight", kSteps));
      fs::remove_all(workspace / "run");
      ++n_finished;
      continue;
    }
    REQUIRE(result.exit_code == 128 + SIGKILL);
    ++n_kills;
    if (newest_step(workspace, "run") == 0) continue;
    const auto verified = workspace.tril("checkpoint verify run");
    INFO(verified.out << verified.err);
    REQUIRE((verified.exit_code == 0 ||
             verified.err.find("no complete checkpoint") != std::string::npos));
  }
  CHECK(n_resumed + n_finished > 10);  // else the kills came before anything happened

  workspace.require(train + "run --resume=auto");
  CHECK(final_weights(workspace, "run", kSteps) == final_weights(workspace, "straight", kSteps));
  const RunLog log = read_metrics(workspace / "run");
  const RunLog straight = read_metrics(workspace / "straight");
  REQUIRE(log.steps.size() == static_cast<size_t>(kSteps));
  for (int64_t step = 1; step <= kSteps; ++step) {
    INFO("step " << step);
    CHECK(log.loss(step) == straight.loss(step));
  }
  CHECK(log.validation_losses == straight.validation_losses);
  for (const auto& name : names_in(workspace / "run/checkpoints")) {
    INFO(name);
    CHECK(name.starts_with("step_"));  // what the kills left has been cleaned up
  }
}

TEST_CASE("a signal during an evaluation saves, and nothing is skipped", "[cli][faults][slow]") {
  const Workspace workspace;
  // Two hundred thousand characters to evaluate: about a second; 5 steps: none.
  write_text(workspace / "long.txt", small_text(50000));
  const std::string train =
      "train --config tiny.json --set data.train=long.txt --set data.validation_fraction=0.95 "
      "--set train.eval_interval=3 --set train.steps=5 --run-dir ";
  workspace.require(train + "straight");
  const auto run = workspace.start(train + "run");
  REQUIRE(run->wait_for_err("step 3/5"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  run->send(SIGTERM);
  const auto result = run->wait();
  INFO(result.err);
  REQUIRE(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(result.err, ContainsSubstring("saved at step 3 of 5"));
  REQUIRE(newest_step(workspace, "run") == 3);
  CHECK(state_of(workspace, "run", 3).at("evaluated_step") == 0);  // it was cut short

  workspace.require("train --run-dir run --resume");
  CHECK(final_weights(workspace, "run", 5) == final_weights(workspace, "straight", 5));
  const RunLog log = read_metrics(workspace / "run");
  CHECK(log.validation_losses == read_metrics(workspace / "straight").validation_losses);
  CHECK(log.validation_losses.size() == 2);  // after steps 3 and 5
}

TEST_CASE("an interrupt at an early step loses nothing", "[cli][faults][slow]") {
  const Workspace workspace;
  const std::string train =
      "train --config tiny.json --set train.steps=1000 --set checkpoint.interval=0 --run-dir ";
  workspace.require(train + "straight");
  const auto run = workspace.start(train + "run");
  REQUIRE(run->wait_for_err("step    1/1000"));
  run->send(SIGINT);
  const auto result = run->wait();
  INFO(result.err);
  REQUIRE(result.exit_code == 128 + SIGINT);
  const int64_t stopped = newest_step(workspace, "run");
  CHECK(stopped >= 1);
  CHECK(stopped < 1000);
  workspace.require("train --run-dir run --resume");
  CHECK(final_weights(workspace, "run", 1000) == final_weights(workspace, "straight", 1000));
}

TEST_CASE("a second signal ends a run at once and harms nothing", "[cli][faults][slow]") {
  const Workspace workspace;
  workspace.require(
      "train --config tiny.json --run-dir run --set train.steps=5 --set train.accumulation=1");
  const std::string before = final_weights(workspace, "run", 5);
  // One step takes minutes: the first signal waits for its end.
  workspace.require("train --config tiny.json --run-dir long --set train.steps=1");
  const auto run =
      workspace.start("train --config tiny.json --run-dir slow --set train.accumulation=200000");
  REQUIRE(run->wait_for_err("plan "));
  run->send(SIGINT);
  CHECK_FALSE(run->ends_within(0.5));
  run->send(SIGINT);
  CHECK(run->ends_within(2));
  CHECK(run->wait().exit_code == 128 + SIGINT);
  CHECK(newest_step(workspace, "slow") == 0);
  CHECK(final_weights(workspace, "run", 5) == before);
  // The folder is free again, and an automatic start takes it.
  workspace.require("train --config tiny.json --run-dir slow --resume=auto");
}

TEST_CASE("two runs in one folder are refused with the owner's name", "[cli][faults][slow]") {
  const Workspace workspace;
  const auto first =
      workspace.start("train --config tiny.json --run-dir run --set train.steps=1000000000");
  REQUIRE(first->wait_for_err("step          6/"));  // a checkpoint is there
  const std::string config = read_text(workspace / "run/config.json");
  refused(workspace.tril("train --config tiny.json --run-dir run"), 2);
  for (const char* how : {"--resume=auto --set train.steps=1000000000",
                          "--resume --set train.steps=1000000001",
                          "--overwrite"}) {
    const auto message =
        refused(workspace.tril(std::string("train --config tiny.json --run-dir run ") + how), 2);
    INFO(how << ": " << message);
    CHECK_THAT(
        message,
        ContainsSubstring("another process") && ContainsSubstring(std::to_string(first->pid())));
  }
  CHECK(first->is_running());
  CHECK(read_text(workspace / "run/config.json") == config);
  first->send(SIGTERM);
  CHECK(first->wait().exit_code == 128 + SIGTERM);
  CHECK(workspace.tril("checkpoint verify run").exit_code == 0);
}
