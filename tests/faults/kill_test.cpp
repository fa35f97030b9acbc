// Runs that are cut off by kill -9: at random instants, and at every single operation on a file.

#include <csignal>

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A save at every step, evaluations, pruning and dropout: most instants fall into a save.
const char* const kBusy =
    "--set checkpoint.interval=1 --set train.eval_interval=7 --set model.dropout=0.1";

/// `n` numbers from 1 to `last`, evenly spread, each once at most.
std::vector<int> spread(int n, int last) {
  std::vector<int> numbers;
  for (int i = 0; i < n && i < last; ++i) {
    const int number = n >= last ? i + 1 : 1 + static_cast<int>(int64_t{i} * last / n);
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

TEST_CASE("a run killed at random instants ends as if it had not been", "[cli][faults][slow]") {
  const FaultRun run(kBusy, /*steps=*/400);
  std::mt19937 random = fault_random();
  const int n = n_events("KILL", 20);
  Tally tally("kill -9", "training, saves and evaluations, at random instants");
  int n_kills = 0;
  while (n_kills < n) {
    const auto child = run.workspace.start(run.command());
    run.sleep_to_an_instant(random);
    if (child->is_running()) child->send(SIGKILL);
    const auto result = child->wait();
    INFO("kill " << n_kills << "\n" << result.err);
    if (result.exit_code == 0) {  // it had ended, perhaps in the instant before the signal
      run.require_same_end();
      run.clear();
      continue;
    }
    REQUIRE(result.exit_code == 128 + SIGKILL);
    ++n_kills;
    run.require_sound();
    tally.count("sound");
  }
  run.require_same_end();
}

TEST_CASE("a run killed at any operation on its files goes on as if it had not been",
          "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const FaultRun run(
      "--set checkpoint.interval=1 --set train.eval_interval=2 "
      "--set checkpoint.keep_last=1",
      /*steps=*/4);
  const int n_operations = run.count_operations();
  REQUIRE(n_operations > 50);
  Tally tally("kill -9", "every operation of saving and pruning");
  for (const int at : spread(n_events("KILL_OPERATIONS", 20), n_operations)) {
    INFO("operation " << at << " of " << n_operations);
    const auto result = run.workspace.tril(
        run.command(), {}, with_fault(run.folder(), "kill " + std::to_string(at)));
    REQUIRE(result.exit_code == 128 + SIGKILL);
    const int64_t step = newest_step(run.folder());
    run.require_sound();
    run.require_same_end();
    tally.count(step == 0 ? "before the first checkpoint" : "went on from a checkpoint");
    run.clear();
  }
  CHECK(tally.of("went on from a checkpoint") > 0);
}

TEST_CASE("a save is on the disk before it counts", "[cli][faults]") {
  REQUIRE_FAULT_SHIM();
  const Workspace workspace;
  const fs::path log = workspace / "operations.log";
  workspace.tril("train --config tiny.json --set train.steps=2 --run-dir run",
                 {},
                 with_fault(workspace / "run", "log " + log.string()));
  std::istringstream lines(read_text(log));
  std::vector<std::vector<std::string>> operations;
  for (std::string line; std::getline(lines, line);) operations.push_back(split_words(line));

  // Of each file in the temporary folder: the last write, then its fsync; then the folder's fsync,
  // then the rename, then the fsync of the folder above.
  std::string temporary;
  std::map<std::string, size_t> last_write, last_sync;
  size_t renamed = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto& words = operations[i];
    if (words.size() == 3 && words[0] == "rename" &&
        words[2].find("checkpoints/step_") != std::string::npos) {
      temporary = words[1];
      renamed = i;
    } else if (words.size() == 2 && (words[0] == "write" || words[0] == "pwrite")) {
      last_write[words[1]] = i;
    } else if (words.size() == 2 && words[0] == "fsync") {
      last_sync[words[1]] = i;
    }
  }
  REQUIRE(renamed > 0);
  int n_files = 0;
  for (const auto& [path, at] : last_write) {
    if (!path.starts_with(temporary + "/")) continue;
    INFO(path);
    ++n_files;
    CHECK(last_sync[path] > at);
    CHECK(last_sync[path] < renamed);
  }
  CHECK(n_files == 6);
  CHECK(last_sync[temporary] > 0);
  CHECK(last_sync[temporary] < renamed);
  CHECK(last_sync[fs::path(temporary).parent_path().string()] > renamed);
  for (const auto& [path, at] : last_write) CHECK((at < renamed || !path.starts_with(temporary)));
}

TEST_CASE("a killed preparation leaves no half token file", "[cli][faults][slow]") {
  REQUIRE_FAULT_SHIM();
  const Workspace workspace;
  const std::string prepare = "prepare text.txt --tokenizer char --out ";
  workspace.require(prepare + "good");
  const fs::path out = workspace / "out";
  const auto counted = workspace.tril(
      prepare + "out", {}, with_fault(out, "count " + (workspace / "count").string()));
  REQUIRE(counted.exit_code == 0);
  const int n_operations = std::stoi(read_text(workspace / "count"));
  Tally tally("kill -9", "every operation of prepare");
  for (const int at : spread(n_events("KILL_PREPARE", 6), n_operations)) {
    INFO("operation " << at << " of " << n_operations);
    fs::remove_all(out);
    const auto result =
        workspace.tril(prepare + "out", {}, with_fault(out, "kill " + std::to_string(at)));
    REQUIRE(result.exit_code == 128 + SIGKILL);
    for (const char* name : {"train.tokens", "validation.tokens"}) {
      if (fs::exists(out / name))
        CHECK(read_text(out / name) == read_text(workspace / "good" / name));
    }
    workspace.require(prepare + "out --overwrite");
    for (const char* name : {"train.tokens", "validation.tokens", "tokenizer.json"}) {
      CHECK(read_text(out / name) == read_text(workspace / "good" / name));
    }
    tally.count("sound");
  }
}

TEST_CASE("a killed evaluation or generation leaves the run as it was", "[cli][faults][slow]") {
  const Workspace workspace;
  write_text(workspace / "long.txt", small_text(50000));
  workspace.require("train --config tiny.json --run-dir run");
  const std::string before = final_weights(workspace / "run", 10);
  const auto names = names_in(workspace / "run/checkpoints");
  std::mt19937 random = fault_random();
  Tally tally("kill -9", "evaluate and generate, at random instants");
  for (int i = 0; i < n_events("KILL_EVALUATE", 4); ++i) {
    const auto child = workspace.start(i % 2 == 0 ? "evaluate run --data long.txt"
                                                  : "generate run --max-new-tokens 100000");
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 400));
    child->send(SIGKILL);
    child->wait();
    REQUIRE(workspace.tril("checkpoint verify run").exit_code == 0);
    REQUIRE(final_weights(workspace / "run", 10) == before);
    REQUIRE(names_in(workspace / "run/checkpoints") == names);
    tally.count("sound");
  }
  workspace.require("evaluate run --data long.txt --json");
}
