// Signals at awkward places: in an evaluation, in a save, twice; and two runs in one folder.

#include <csignal>

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

tril::Json state_of(const Workspace& workspace, const std::string& run, int64_t step) {
  return tril::Json::parse(read_text(checkpoint_folder(workspace / run, step) / "state.json"));
}

}  // namespace

TEST_CASE("a run stopped by signals at random instants ends as if it had not been",
          "[cli][faults][slow]") {
  const FaultRun run(
      "--set checkpoint.interval=3 --set train.eval_interval=7 "
      "--set model.dropout=0.1",
      /*steps=*/400);
  std::mt19937 random = fault_random();
  const int n = n_events("SIGNAL", 12);
  Tally tally("signal", "INT, TERM or HUP, once or twice, at random instants");
  for (int i = 0; i < n;) {
    const auto child = run.workspace.start(run.command());
    run.sleep_to_an_instant(random);
    const int signal = std::array{SIGINT, SIGTERM, SIGHUP}[random() % 3];
    const bool twice = random() % 3 == 0;
    const bool finished = !child->is_running();
    if (!finished) child->send(signal);
    if (!finished && twice) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      child->send(signal);
    }
    const auto result = child->wait();
    INFO("signal " << i << "\n" << result.err);
    REQUIRE_FALSE(result.timed_out);
    if (finished) {
      REQUIRE(result.exit_code == 0);
      run.require_same_end();
      run.clear();
      continue;
    }
    ++i;
    run.require_sound();
    // Early in the program's start the default action ends it; at the last step it is done anyway.
    REQUIRE((result.exit_code == 128 + signal || result.exit_code == 0));
    tally.count(result.err.find("saved at step") != std::string::npos ? "saved" : "ended at once");
  }
  run.require_same_end();
  CHECK(tally.of("saved") > 0);
}

TEST_CASE("a signal at any operation of a save is obeyed after it, and a second one at once",
          "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run(
      "--set checkpoint.interval=1 --set train.eval_interval=2 "
      "--set checkpoint.keep_last=1",
      /*steps=*/4);
  const int n_operations = run.count_operations();
  const int n = n_events("SIGNAL_OPERATIONS", 8);
  Tally tally("signal", "TERM, once or twice, at operations of saving and pruning");
  for (int i = 0; i < n; ++i) {
    const int at = 1 + static_cast<int>(int64_t{i} * n_operations / n);
    const bool twice = i % 2 == 1;
    INFO("operation " << at << " of " << n_operations << (twice ? ", twice" : ""));
    const std::string fault =
        (twice ? "signals " : "signal ") + std::to_string(at) + " 15 " + std::to_string(at + 3);
    const auto result = run.workspace.tril(run.command(), {}, with_fault(run.folder(), fault));
    INFO(result.err);
    REQUIRE((result.exit_code == 128 + SIGTERM || result.exit_code == 0));
    if (!twice) REQUIRE(newest_step(run.folder()) > 0);  // the step was finished and saved
    run.require_sound();
    run.require_same_end();
    tally.count(twice ? "ended at once" : "saved");
    run.clear();
  }
}

TEST_CASE("a terminal that goes away stops a run as a signal does, unless nohup forbids it",
          "[cli][faults][slow]") {
  const Workspace workspace;
  const std::string train = "train --config tiny.json --set train.steps=1000000000 --run-dir ";
  const auto run = workspace.start(train + "run");
  REQUIRE(run->wait_for_err("step          2/"));
  run->send(SIGHUP);
  CHECK(run->wait().exit_code == 128 + SIGHUP);
  CHECK(newest_step(workspace / "run") >= 2);

  const auto stays =
      workspace.bash("trap '' HUP; \"$0\" " + train +
                     "stays & pid=$!; until ls stays/checkpoints/step_* >/dev/null 2>&1; do "
                     "sleep 0.05; done; kill -HUP $pid; sleep 0.3; kill -0 $pid && echo alive; "
                     "kill -TERM $pid; wait $pid; echo $?");
  CHECK_THAT(stays.out, ContainsSubstring("alive") && ContainsSubstring("143"));
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
  REQUIRE(newest_step(workspace / "run") == 3);
  CHECK(state_of(workspace, "run", 3).at("evaluated_step") == 0);  // it was cut short

  workspace.require("train --run-dir run --resume");
  CHECK(final_weights(workspace / "run", 5) == final_weights(workspace / "straight", 5));
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
  const int64_t stopped = newest_step(workspace / "run");
  CHECK(stopped >= 1);
  CHECK(stopped < 1000);
  workspace.require("train --run-dir run --resume");
  CHECK(final_weights(workspace / "run", 1000) == final_weights(workspace / "straight", 1000));
}

TEST_CASE("a second signal ends a run at once and harms nothing", "[cli][faults][slow]") {
  const Workspace workspace;
  workspace.require(
      "train --config tiny.json --run-dir run --set train.steps=5 --set train.accumulation=1");
  const std::string before = final_weights(workspace / "run", 5);
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
  CHECK(newest_step(workspace / "slow") == 0);
  CHECK(final_weights(workspace / "run", 5) == before);
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
