#include "tril/checkpoint/run_folder.h"

#include <unistd.h>

#include <string>

#include "support/catch.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/base/file.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A checkpoint without tensors.
void save_step(const RunFolder& run, int64_t step, int64_t best_step = 0) {
  const std::vector<NamedTensor> none;
  const CheckpointState state{.step = step, .best_step = best_step};
  const OrderedJson json = OrderedJson::object();
  save_checkpoint(
      run.checkpoint_folder(step),
      {.parameters = none, .optimizer = none, .state = state, .config = json, .tokenizer = json});
}

std::vector<int64_t> steps(const RunFolder& run) {
  std::vector<int64_t> result;
  for (const auto& entry : run.list()) result.push_back(entry.step);
  return result;
}

using Steps = std::vector<int64_t>;

}  // namespace

TEST_CASE("a run lists its complete checkpoints, oldest first", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  CHECK(run.list().empty());  // not even the folder is there
  CHECK_FALSE(run.latest());
  for (const int64_t step : {1000, 20, 3, 123456789}) save_step(run, step);
  CHECK(steps(run) == Steps{3, 20, 1000, 123456789});
  CHECK(run.latest()->step == 123456789);
  CHECK(run.checkpoint_folder(20).filename() == "step_00000020");
  CHECK(run.checkpoint_folder(123456789).filename() == "step_123456789");
}

TEST_CASE("left-overs of broken saves are ignored, then removed", "[checkpoint]") {
  const TempDir dir;
  RunFolder run(dir / "run");
  run.create_and_lock();
  save_step(run, 10);
  const fs::path unfinished = run.checkpoint_folder(20);
  const fs::path temporary = temporary_sibling(run.checkpoint_folder(30));
  const fs::path killed = run.checkpoints() / ".step_00000040.tmp-1-1";
  for (const auto& folder : {unfinished, temporary, killed}) fs::create_directory(folder);
  write_text(unfinished / "model.safetensors", "half");
  // A save is complete inside its temporary folder before it is renamed.
  write_text(temporary / "manifest.json", "{}");
  // What is not ours stays.
  write_text(run.checkpoints() / "step_notes.txt", "mine");
  write_text(run.checkpoints() / "README", "mine");

  CHECK(steps(run) == Steps{10});
  run.remove_leftovers();
  for (const auto& folder : {temporary, killed}) CHECK_FALSE(fs::exists(folder));
  // No save leaves a step_ folder without manifest: it is damaged or half copied, and not ours to
  // remove.
  CHECK(read_text(unfinished / "model.safetensors") == "half");
  CHECK(fs::exists(run.checkpoints() / "step_notes.txt"));
  CHECK(fs::exists(run.checkpoints() / "README"));
  CHECK(steps(run) == Steps{10});
}

TEST_CASE("a checkpoint is chosen by latest, best or step", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  save_step(run, 10, /*best_step=*/10);
  save_step(run, 20, /*best_step=*/10);
  save_step(run, 30, /*best_step=*/20);
  CHECK(run.choose("latest").step == 30);
  CHECK(run.choose("best").step == 20);  // what the newest one says
  CHECK(run.choose("10").step == 10);
  CHECK(run.choose("00000010").step == 10);

  const auto absent = message_of([&] { run.choose("15"); });
  CHECK_THAT(absent, ContainsSubstring("no checkpoint of step 15"));
  CHECK_THAT(absent, ContainsSubstring("10, 20, 30"));
  for (const char* choice : {"newest", "", "-1", "1x", "10.0", "99999999999999999999"}) {
    CAPTURE(choice);
    CHECK_THROWS_AS(run.choose(choice), ConfigError);
    CHECK_THAT(message_of([&] { run.choose(choice); }),
               ContainsSubstring("expected latest, best or a step number"));
  }
}

TEST_CASE("best is an error where nothing was evaluated or it is gone", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  CHECK_THROWS_AS(run.choose("best"), CheckpointError);
  CHECK_THAT(message_of([&] { run.choose("latest"); }),
             ContainsSubstring("no complete checkpoint"));
  save_step(run, 10);
  CHECK_THAT(message_of([&] { run.choose("best"); }), ContainsSubstring("never evaluated"));
  save_step(run, 20, /*best_step=*/15);
  CHECK_THAT(message_of([&] { run.choose("best"); }),
             ContainsSubstring("no checkpoint of step 15; there are: 10, 20"));
}

TEST_CASE("pruning keeps the newest and the best", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  const auto fill = [&] {
    for (const int64_t step : {10, 20, 30, 40, 50}) save_step(run, step);
  };
  fill();
  run.prune(/*keep_last=*/2, /*best_step=*/20);
  CHECK(steps(run) == Steps{20, 40, 50});
  run.prune(2, /*best_step=*/50);  // the best is among the newest
  CHECK(steps(run) == Steps{40, 50});
  fill();
  run.prune(2, std::nullopt);
  CHECK(steps(run) == Steps{40, 50});
  run.prune(1, std::nullopt);
  CHECK(steps(run) == Steps{50});
  fill();
  run.prune(/*keep_last=*/0, std::nullopt);  // all
  run.prune(5, std::nullopt);
  run.prune(100, std::nullopt);
  CHECK(steps(run) == Steps{10, 20, 30, 40, 50});
  // Nothing else is left behind: each folder has model, state, config, tokenizer and manifest.
  CHECK(count_entries(run.checkpoints()) == 5 * 6);
}

TEST_CASE("nothing is written before checkpoints of later steps", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  CHECK_NOTHROW(run.require_none_after(0));
  for (const int64_t step : {10, 20}) save_step(run, step);
  CHECK_NOTHROW(run.require_none_after(20));
  CHECK_NOTHROW(run.require_none_after(21));
  CHECK_THROWS_AS(run.require_none_after(10), ConfigError);
  const auto message = message_of([&] { run.require_none_after(10); });
  CHECK_THAT(message,
             ContainsSubstring("a checkpoint of step 20") && ContainsSubstring("from step 10") &&
                 ContainsSubstring((dir / "run").string()));
  CHECK(steps(run) == Steps{10, 20});
}

TEST_CASE("the newest whole checkpoint is found, and damaged ones are kept aside", "[checkpoint]") {
  const TempDir dir;
  RunFolder run(dir / "run");
  run.create_and_lock();
  Steps told;
  std::vector<std::string> faults;
  const auto newest = [&] {
    told.clear();
    faults.clear();
    const auto found = run.newest_intact([&](const CheckpointEntry& entry, const std::string& why) {
      told.push_back(entry.step);
      faults.push_back(why);
    });
    return found ? found->step : -1;
  };
  CHECK(newest() == -1);
  for (const int64_t step : {10, 20, 30, 40}) save_step(run, step);
  CHECK(newest() == 40);
  CHECK(told.empty());

  const fs::path state = run.checkpoint_folder(40) / "state.json";
  std::string bytes = read_text(state);
  bytes[bytes.find("40")] = '5';  // the size is right, the checksum is not
  write_text(state, bytes);
  write_text(run.checkpoint_folder(30) / "manifest.json", "{");
  CHECK(newest() == 20);
  CHECK(told == Steps{40, 30});
  CHECK_THAT(faults.at(0), ContainsSubstring("state.json") && ContainsSubstring("checksum"));
  CHECK_THAT(faults.at(1), ContainsSubstring("manifest.json"));

  const CheckpointEntry damaged = run.latest().value();
  CHECK(run.set_aside(damaged).filename() == "damaged_step_00000040");
  CHECK(read_text(run.checkpoints() / "damaged_step_00000040" / "state.json") == bytes);
  CHECK(steps(run) == Steps{10, 20, 30});
  save_step(run, 40);
  CHECK(run.set_aside(run.latest().value()).filename() == "damaged_step_00000040_1");
  run.remove_leftovers();
  CHECK(fs::exists(run.checkpoints() / "damaged_step_00000040"));
}

TEST_CASE("links in a stranger's run folder lead nowhere", "[checkpoint]") {
  const TempDir dir;
  fs::create_directories(dir / "elsewhere");
  write_text(dir / "precious.txt", "mine");
  SECTION("checkpoints") {
    fs::create_directory(dir / "run");
    fs::create_directory_symlink(dir / "elsewhere", dir / "run" / "checkpoints");
    RunFolder run(dir / "run");
    CHECK_THAT(message_of([&] { run.create_and_lock(); }),
               ContainsSubstring("checkpoints") && ContainsSubstring("is a link"));
    CHECK(fs::is_empty(dir / "elsewhere"));
  }
  SECTION("lock") {
    fs::create_directory(dir / "run");
    fs::create_symlink(dir / "precious.txt", dir / "run" / "lock");
    RunFolder run(dir / "run");
    CHECK_THAT(message_of([&] { run.create_and_lock(); }),
               ContainsSubstring("lock") && ContainsSubstring("is a link"));
  }
  SECTION("the run folder itself may be one") {
    fs::create_directory_symlink(dir / "elsewhere", dir / "run");
    RunFolder run(dir / "run");
    CHECK_NOTHROW(run.create_and_lock());
  }
  CHECK(read_text(dir / "precious.txt") == "mine");
}

TEST_CASE("a run that is being written is refused, naming who writes it", "[checkpoint]") {
  const TempDir dir;
  {
    RunFolder first(dir / "run");
    first.create_and_lock();
    RunFolder second(dir / "run");
    CHECK_THROWS_AS(second.create_and_lock(), ConfigError);
    const auto message = message_of([&] { second.create_and_lock(); });
    CHECK_THAT(message, ContainsSubstring((dir / "run").string()));
    CHECK_THAT(message, ContainsSubstring(std::to_string(getpid())));
    CHECK_THAT(message, ContainsSubstring("--run-dir"));
    RunFolder elsewhere(dir / "another");
    CHECK_NOTHROW(elsewhere.create_and_lock());
  }
  RunFolder after(dir / "run");
  CHECK_NOTHROW(after.create_and_lock());  // the lock ended with its owner
}

TEST_CASE("a run folder that cannot be made is a readable error", "[checkpoint]") {
  const TempDir dir;
  write_text(dir / "file", "");
  RunFolder run(dir / "file" / "run");
  CHECK_THAT(message_of([&] { run.create_and_lock(); }), ContainsSubstring("cannot make"));
}

TEST_CASE("a run is recognised by its files and overwritten without touching others",
          "[checkpoint]") {
  const TempDir dir;
  RunFolder run(dir / "run");
  CHECK_FALSE(run.has_run());
  run.create_and_lock();
  write_text(run.root() / "notes.txt", "mine");
  CHECK_FALSE(run.has_run());  // a folder, a lock and a stranger's file
  write_text(run.metrics_path(), "{}\n");
  CHECK(run.has_run());
  fs::remove(run.metrics_path());
  write_text(run.config_path(), "{}");
  CHECK(run.has_run());
  fs::remove(run.config_path());
  save_step(run, 10);
  CHECK(run.has_run());

  for (const auto& path : {run.metrics_path(), run.log_path(), run.config_path()}) {
    write_text(path, "old");
  }
  run.remove_run_files();
  CHECK_FALSE(run.has_run());
  CHECK_FALSE(fs::exists(run.log_path()));
  CHECK(read_text(run.root() / "notes.txt") == "mine");
  CHECK(fs::is_directory(run.checkpoints()));
}

TEST_CASE("a command's RUN is a run folder or a checkpoint folder", "[checkpoint]") {
  const TempDir dir;
  const RunFolder run(dir / "run");
  save_step(run, 10, /*best_step=*/10);
  save_step(run, 20, /*best_step=*/10);
  CHECK(open_run_argument(dir / "run", "latest").folder() == run.checkpoint_folder(20));
  CHECK(open_run_argument(dir / "run", "best").folder() == run.checkpoint_folder(10));
  CHECK(open_run_argument(run.checkpoint_folder(10), "latest").folder() ==
        run.checkpoint_folder(10));
  const auto message = [&](const fs::path& path) {
    return message_of([&] { open_run_argument(path, "latest"); });
  };
  CHECK_THAT(message(dir / "absent"), ContainsSubstring("there is no such folder"));
  CHECK_THAT(message(run.checkpoint_folder(10) / "state.json"), ContainsSubstring("a file"));
  fs::create_directory(dir / "empty");
  CHECK_THAT(message(dir / "empty"), ContainsSubstring("no complete checkpoint"));
}
