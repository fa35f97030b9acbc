// Disks that are full, failing, slow, read-only or gone.

#include <sys/mount.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

TEST_CASE("a disk that is full at any operation costs nothing that was saved",
          "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run(
      "--set checkpoint.interval=1 --set train.eval_interval=2 "
      "--set checkpoint.keep_last=2",
      /*steps=*/4);
  const int n_operations = run.count_operations();
  const int n = n_events("DISK_FULL", 12);
  Tally tally("disk full", "every operation of a run (ENOSPC, EDQUOT, EIO)");
  for (int i = 0; i < n; ++i) {
    const int at = 1 + static_cast<int>(int64_t{i} * n_operations / n);
    const int error = std::array{ENOSPC, EDQUOT, EIO}[static_cast<size_t>(i % 3)];
    INFO("errno " << error << " from operation " << at << " of " << n_operations);
    const std::string fault = "fail " + std::to_string(at) + " " + std::to_string(error);
    const auto result = run.workspace.tril(run.command(), {}, with_fault(run.folder(), fault));
    INFO(result.err);
    // Of the last lines of the logs a run can do without.
    REQUIRE((result.exit_code == 6 || result.exit_code == 2 || result.exit_code == 0));
    CHECK(result.err.find("bug in tril") == std::string::npos);
    run.require_sound();
    for (const auto& name : names_in(run.folder() / "checkpoints")) {
      INFO(name);
      CHECK(name.starts_with("step_"));  // a failed save removes what it had written
    }
    if (result.exit_code != 0) {
      tally.count(newest_step(run.folder()) > 0 ? "refused, went on later"
                                                : "refused at the start");
      // What the logs lost is not part of the promise, the weights are.
      run.workspace.require(run.command());
    } else {
      tally.count("went on without its log");
    }
    REQUIRE(final_weights(run.folder(), run.steps()) ==
            final_weights(run.workspace / "straight", run.steps()));
    run.clear();
  }
}

TEST_CASE("a file-size limit is a full disk", "[cli][faults]") {
  const Workspace workspace;
  const std::string train = "train --config tiny.json --run-dir run --resume=auto";
  for (const int kilobytes : {1, 4, 12, 40}) {
    const auto result =
        workspace.bash("ulimit -f " + std::to_string(kilobytes) + "; exec \"$0\" " + train);
    INFO(kilobytes << " KB\n" << result.err);
    CHECK((result.exit_code == 6 || result.exit_code == 0));
    CHECK(result.err.find("bug in tril") == std::string::npos);
    if (newest_step(workspace / "run") > 0) {
      CHECK(workspace.tril("checkpoint verify run").exit_code == 0);
    }
  }
  workspace.require(train);
}

TEST_CASE("a real small file system fills up, and the run goes on when there is space",
          "[cli][faults][slow]") {
  const Workspace workspace;
  const std::string train =
      "train --config tiny.json --set checkpoint.interval=1 "
      "--set checkpoint.keep_last=0 --set train.steps=30 --run-dir ";
  workspace.require(train + "straight");
  fs::create_directory(workspace / "small");
  const std::string place = (workspace / "small").string();
  if (mount("tmpfs", place.c_str(), "tmpfs", 0, "size=400k") != 0) {
    TRIL_SKIP("mounting a small file system needs rights that this test does not have");
  }
  const auto full = workspace.tril(train + "small/run");
  const int64_t reached = newest_step(workspace / "small/run");
  const auto verified = workspace.tril("checkpoint verify small/run");
  const int remounted = mount("tmpfs", place.c_str(), "tmpfs", MS_REMOUNT, "size=64m");
  const auto resumed = workspace.tril("train --run-dir small/run --resume");
  const std::string end = resumed.exit_code == 0 ? final_weights(workspace / "small/run", 30) : "";
  umount2(place.c_str(), MNT_DETACH);  // whatever the checks below say
  INFO(full.err << "\n" << resumed.err);
  CHECK(full.exit_code == 6);
  CHECK_THAT(full.err, ContainsSubstring("no space left"));
  CHECK(reached > 0);
  CHECK(verified.exit_code == 0);
  REQUIRE(remounted == 0);
  CHECK(resumed.exit_code == 0);
  CHECK(end == final_weights(workspace / "straight", 30));
}

TEST_CASE("a run that loses its rights, or whose disk becomes read-only, says so and harms nothing",
          "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run("--set checkpoint.interval=1", /*steps=*/3);
  const int n_operations = run.count_operations();
  for (const int error : {EACCES, EROFS, EPERM}) {
    for (const int at : {1, n_operations / 2, n_operations - 5}) {
      INFO("errno " << error << " from operation " << at << " of " << n_operations);
      const std::string fault = "fail " + std::to_string(at) + " " + std::to_string(error);
      const auto result = run.workspace.tril(run.command(), {}, with_fault(run.folder(), fault));
      INFO(result.err);
      // After the last save only the logs are left to write, and those a run can do without.
      const bool all_saved = newest_step(run.folder()) == 3;
      CHECK(
          (result.exit_code == 2 || result.exit_code == 6 || (all_saved && result.exit_code == 0)));
      CHECK(result.err.find("bug in tril") == std::string::npos);
      run.require_sound();
      run.workspace.require(run.command());
      CHECK(final_weights(run.folder(), 3) == final_weights(run.workspace / "straight", 3));
      run.clear();
    }
  }
}

TEST_CASE("a slow disk delays a run and a signal waits for the save", "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run("--set checkpoint.interval=1", /*steps=*/5);
  const auto slow = run.workspace.start(
      run.command(), run.workspace.options(with_fault(run.folder(), "slow 20000")));
  REQUIRE(slow->wait_for_err("step 2/5"));
  slow->send(SIGTERM);
  const auto result = slow->wait();
  INFO(result.err);
  CHECK(result.exit_code == 128 + SIGTERM);
  CHECK_THAT(result.err, ContainsSubstring("saved at step"));
  run.require_sound();
  run.require_same_end();
}

TEST_CASE("a run whose folder is removed under it saves into a new one", "[cli][faults][slow]") {
  const FaultRun run("--set checkpoint.interval=0", /*steps=*/2000);
  const auto child = run.workspace.start(run.command());
  REQUIRE(child->wait_for_err("step   10/2000"));
  fs::remove_all(run.folder());
  const auto result = child->wait();
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(final_weights(run.folder(), 2000) == final_weights(run.workspace / "straight", 2000));
  run.workspace.require("generate run --max-new-tokens 5");
}

TEST_CASE("a text or token file that vanishes or is cut under a run is no silent harm",
          "[cli][faults][slow]") {
  const Workspace workspace;
  write_text(workspace / "long.txt", small_text(50000));
  workspace.require("prepare long.txt --tokenizer char --out data");
  const std::string train =
      "train --config tiny.json --set data.train=data/train.tokens --set checkpoint.interval=50 "
      "--set data.validation_fraction=0 --set train.steps=1000000000 --run-dir ";
  const auto run = workspace.start(train + "run");
  REQUIRE(run->wait_for_err("step        200/"));
  fs::resize_file(workspace / "data/train.tokens", 4096);
  REQUIRE(run->ends_within(20));
  const auto result = run->wait();
  INFO(result.err);
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, ContainsSubstring("became shorter"));
  CHECK(workspace.tril("checkpoint verify run").exit_code == 0);

  // Removed is not cut: the run keeps what it has opened.
  workspace.require("prepare long.txt --tokenizer char --out again");
  const auto other = workspace.start(
      "train --config tiny.json --set data.train=again/train.tokens --set "
      "data.validation_fraction=0 "
      "--set train.steps=2000 --run-dir other");
  REQUIRE(other->wait_for_err("step   10/"));
  fs::remove_all(workspace / "again");
  CHECK(other->wait().exit_code == 0);
}
