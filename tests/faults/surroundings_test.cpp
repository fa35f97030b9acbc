// What surrounds a run: a clock that jumps, memory that ends, another run, time that runs out, and
// many steps.

#include <csignal>

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

TEST_CASE("a clock that jumps by years changes nothing", "[cli][faults]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run("--set checkpoint.interval_minutes=1000 --set train.max_minutes=1000",
                     /*steps=*/20);
  const auto result = run.workspace.tril(run.command(), {}, with_fault(run.folder(), "clock"));
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  run.require_same_end();
  for (const auto& [step, line] : read_metrics(run.folder()).steps) {
    INFO(line.dump());
    CHECK(line.at("elapsed_seconds").get<double>() >= 0);
    CHECK(line.at("elapsed_seconds").get<double>() < 600);
    CHECK(line.at("tokens_per_second").get<double>() > 0);
  }
}

TEST_CASE("memory that ends is exit code 6 and harms nothing", "[cli][faults][slow]") {
  if (!can_inject_faults()) TRIL_SKIP("the sanitizers reserve more than any limit");
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  const std::string before = final_weights(workspace / "run", 10);
  // About 2 GB of activations; the limits leave the program itself (libraries, threads) room.
  const std::string big =
      "train --config tiny.json --set model.context_length=256 --set model.n_embed=256 "
      "--set train.batch_size=512 --set train.steps=1 --set data.validation_fraction=0 "
      "--run-dir big";
  int n_refused = 0;
  for (const int megabytes : {1200, 1500, 2000, 2500}) {
    const auto result =
        workspace.bash("ulimit -v " + std::to_string(megabytes * 1024) + "; exec \"$0\" " + big);
    INFO(megabytes << " MB: exit " << result.exit_code << "\n" << result.err);
    // 127: the limit does not even hold the libraries.
    CHECK((result.exit_code == 6 || result.exit_code == 0 || result.exit_code == 127));
    CHECK(result.err.find("bug in tril") == std::string::npos);
    n_refused += result.exit_code == 6 ? 1 : 0;
    fs::remove_all(workspace / "big");
  }
  CHECK(n_refused > 0);
  CHECK(final_weights(workspace / "run", 10) == before);
}

TEST_CASE("one command line serves a job that is queued again and again", "[cli][faults][slow]") {
  const Workspace workspace;
  const std::string train =
      "train --config tiny.json --set train.steps=3000 --set checkpoint.interval=0 "
      "--set train.eval_interval=1000 --resume=auto ";
  workspace.require(train + "--run-dir straight");
  // About a tenth of a second each time.
  int n_starts = 0;
  for (bool done = false; !done; ++n_starts) {
    REQUIRE(n_starts < 200);
    const auto result = workspace.require(train + "--set train.max_minutes=0.002 --run-dir run");
    done = result.err.find("time budget used") == std::string::npos;
    if (!done) CHECK_THAT(result.err, ContainsSubstring("Go on with: tril train --run-dir"));
  }
  CHECK(n_starts > 1);
  CHECK(final_weights(workspace / "run", 3000) == final_weights(workspace / "straight", 3000));
  CHECK(read_metrics(workspace / "run").validation_losses ==
        read_metrics(workspace / "straight").validation_losses);
  // Queued once more than needed: nothing to do is no error.
  workspace.require(train + "--run-dir run");
}

TEST_CASE("an automatic resume passes over damaged checkpoints and keeps them",
          "[cli][faults][slow]") {
  const FaultRun run("--set checkpoint.interval=2 --set checkpoint.keep_last=0", /*steps=*/8);
  run.workspace.require(run.command() + " --set train.steps=6");
  const fs::path newest = checkpoint_folder(run.folder(), 6) / "optimizer.safetensors";
  std::string bytes = read_text(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(newest, bytes);
  fs::resize_file(checkpoint_folder(run.folder(), 4) / "model.safetensors", 100);

  // Plain --resume does not choose by itself; it names the file and the way on.
  CHECK_THAT(refused(run.workspace.tril("train --run-dir run --resume"), 4),
             ContainsSubstring("optimizer.safetensors") && ContainsSubstring("--resume=auto"));
  const auto resumed = run.workspace.require(run.command());
  CHECK_THAT(resumed.err,
             ContainsSubstring("step_00000002") && ContainsSubstring("kept aside") &&
                 ContainsSubstring("damaged_step_00000006"));
  CHECK(final_weights(run.folder(), 8) == final_weights(run.workspace / "straight", 8));
  CHECK(read_text(run.folder() / "checkpoints/damaged_step_00000006/optimizer.safetensors") ==
        bytes);

  // Where all are damaged, nothing is begun anew without being told.
  for (const auto& name : names_in(run.folder() / "checkpoints")) {
    if (name.starts_with("step_")) {
      write_text(run.folder() / "checkpoints" / name / "manifest.json", "{");
    }
  }
  CHECK_THAT(refused(run.workspace.tril(run.command()), 4),
             ContainsSubstring("checkpoints are damaged") && ContainsSubstring("--overwrite"));
}

TEST_CASE("two runs started at once in one folder: one trains, one is refused",
          "[cli][faults][slow]") {
  const FaultRun run("--set checkpoint.interval=1", /*steps=*/60);
  Tally tally("two at once", "started within milliseconds");
  for (int i = 0; i < n_events("TWO_RUNS", 3); ++i) {
    const auto first = run.workspace.start(run.command());
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * (i % 10)));
    const auto second = run.workspace.start(run.command());
    const auto a = first->wait();
    const auto b = second->wait();
    INFO(a.err << "\n---\n" << b.err);
    // The later one is refused, or comes when all is done and has nothing left to do.
    for (const auto& result : {a, b}) {
      REQUIRE((result.exit_code == 0 || result.exit_code == 2));
      if (result.exit_code == 2) CHECK_THAT(result.err, ContainsSubstring("another process"));
    }
    REQUIRE((a.exit_code == 0 || b.exit_code == 0));
    run.require_same_end();
    run.clear();
    tally.count(a.exit_code == b.exit_code ? "one after the other" : "refused");
  }
}

TEST_CASE("memory stays flat over many steps, evaluations and saves", "[cli][faults][slow]") {
  if (!can_inject_faults()) TRIL_SKIP("a sanitizer keeps freed memory for a while");
  const Workspace workspace;
  const int steps = n_events("LONG_STEPS", 3000);
  const auto run = workspace.start(
      "train --config tiny.json --set checkpoint.interval=50 --set train.eval_interval=50 "
      "--set train.sample_interval=500 --set train.sample_tokens=20 --set train.steps=" +
          std::to_string(steps) + " --run-dir run",
      workspace.options({.timeout_seconds = 600}));
  const auto resident_kilobytes = [&] {
    std::istringstream status(read_text("/proc/" + std::to_string(run->pid()) + "/status"));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    }
    return 0L;
  };
  // After a tenth of the steps everything that is allocated once is there.
  const std::string width(std::to_string(steps).size(), ' ');
  std::string tenth = std::to_string(steps / 10);
  tenth.insert(0, width.size() - tenth.size(), ' ');
  REQUIRE(run->wait_for_err("step " + tenth + "/", 300));
  const long early = resident_kilobytes();
  long late = early;
  while (run->is_running()) {
    if (const long now = resident_kilobytes(); now > 0) late = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto result = run->wait();
  INFO(result.err.substr(0, 2000));
  REQUIRE(result.exit_code == 0);
  Tally tally("long run", std::to_string(steps) + " steps: resident KB after a tenth, at the end");
  tally.count(std::to_string(early) + " KB, " + std::to_string(late) + " KB");
  INFO(early << " KB after a tenth, " << late << " KB at the end");
  CHECK(late < early + 8192);
  CHECK(workspace.tril("checkpoint verify run").exit_code == 0);
}
