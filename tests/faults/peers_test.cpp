// A process of several is killed: torchrun starts all again, and the end is that of an undisturbed
// run.

#include <csignal>
#include <fstream>

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 400;
constexpr int kProcesses = 4;

const fs::path& torchrun() {
  static const fs::path path = fs::path(TRIL_SOURCE_DIR) / ".deps/peers/bin/torchrun";
  return path;
}

/// The processes that any thread of `parent` has started.
std::vector<pid_t> children_of_all_threads(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code ignored;
  const fs::path tasks = "/proc/" + std::to_string(parent) + "/task";
  for (const auto& task : fs::directory_iterator(tasks, ignored)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

std::vector<std::string> torchrun_command(const std::string& run) {
  std::vector<std::string> words = split_words(
      torchrun().string() + " --standalone --nproc-per-node " + std::to_string(kProcesses) +
      " --max-restarts 3 --monitor-interval 0.1 --no-python " TRIL_BINARY
      " train --config tiny.json --resume=auto --set checkpoint.interval=10 --set train.steps=" +
      std::to_string(kSteps) + " --run-dir " + run);
  return words;
}

}  // namespace

TEST_CASE("torchrun restarts a run whose process was killed, and it ends as if it had not been",
          "[cli][faults][distributed][slow]") {
  if (!fs::exists(torchrun())) TRIL_SKIP("no torchrun: scripts/setup.sh --peers");
  const Workspace workspace;
  const auto straight =
      run_process(torchrun_command("straight"), workspace.options({.timeout_seconds = 120}));
  INFO(straight.err);
  REQUIRE(straight.exit_code == 0);
  std::mt19937 random = fault_random();
  Tally tally("kill -9", "one of 4 processes under torchrun, at random instants");
  for (int i = 0; i < n_events("TORCHRUN", 2); ++i) {
    const std::string run = "run" + std::to_string(i);
    Process process(torchrun_command(run), workspace.options({.timeout_seconds = 120}));
    const int step = 1 + static_cast<int>(random() % (kSteps - 100));
    REQUIRE(process.wait_for_err("step " + std::string(step < 100 ? step < 10 ? "  " : " " : "") +
                                     std::to_string(step) + "/",
                                 60));
    const auto children = children_of_all_threads(process.pid());
    REQUIRE(children.size() == kProcesses);
    kill(children[random() % kProcesses], SIGKILL);
    const auto result = process.wait();
    INFO(result.err);
    REQUIRE(!result.timed_out);
    REQUIRE(result.exit_code == 0);
    REQUIRE(workspace.tril("checkpoint verify " + run).exit_code == 0);
    REQUIRE(final_weights(workspace / run, kSteps) ==
            final_weights(workspace / "straight", kSteps));
    tally.count("restarted, same end");
  }
}

TEST_CASE("a process killed during a save ends the others, and the run goes on as if it had not",
          "[cli][faults][distributed][slow]") {
  REQUIRE_FAULT_SHIM();
  const Workspace workspace;
  const auto launch = [](const std::string& run) {
    return "launch --nproc 3 -- train --config tiny.json --resume=auto --set train.steps=6 "
           "--set checkpoint.interval=1 --run-dir " +
           run;
  };
  workspace.require(launch("straight"));
  const auto require_good_end = [&](const std::string& run, const ProcessResult& killed) {
    INFO(killed.err);
    REQUIRE(killed.exit_code == 7);
    CHECK(killed.wall_seconds < 30);  // the time-out is 600 s
    if (newest_step(workspace / run) > 0) workspace.require("checkpoint verify " + run);
    workspace.require(launch(run));
    CHECK(final_weights(workspace / run, 6) == final_weights(workspace / "straight", 6));
  };
  // Only rank 0 has files, so it is the one that meets the fault: before, in and after a save.
  for (const int operation : {12, 40, 71, 110}) {
    INFO("operation " << operation);
    const std::string run = "first" + std::to_string(operation);
    const std::string fault = "kill " + std::to_string(operation);
    require_good_end(run, workspace.tril(launch(run), {}, with_fault(workspace / run, fault)));
  }
  // Another one, while rank 0 saves: all but a hundredth of this run's time.
  const auto slow = workspace.start(
      launch("second"), workspace.options(with_fault(workspace / "second", "slow 20000")));
  REQUIRE(slow->wait_for_err("step 2/6"));
  const auto children = children_of_all_threads(slow->pid());
  REQUIRE(children.size() == 3);
  kill(children[1], SIGKILL);
  require_good_end("second", slow->wait());
}
