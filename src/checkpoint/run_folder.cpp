#include "tril/checkpoint/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tril/base/error.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step_";

std::optional<int64_t> parse_step(std::string_view text) {
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || step < 0) {
    return std::nullopt;
  }
  return step;
}

/// The step in "step_00001000"; nothing for another name.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return parse_step(name.substr(kPrefix.size()));
}

/// Renamed first: a removal that is broken off leaves a left-over, never half a checkpoint.
void remove_checkpoint(const fs::path& folder) {
  const fs::path doomed = temporary_sibling(folder);
  std::error_code error;
  fs::rename(folder, doomed, error);
  if (!error) fs::remove_all(doomed, error);
}

}  // namespace

fs::path RunFolder::checkpoint_folder(int64_t step) const {
  return checkpoints() / fmt::format("{}{:08}", kPrefix, step);
}

std::vector<CheckpointEntry> RunFolder::list() const {
  std::vector<CheckpointEntry> result;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto step = step_of(name);
    if (step && Checkpoint::is_complete(it->path())) result.push_back({*step, it->path()});
  }
  std::sort(
      result.begin(), result.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return result;
}

std::optional<CheckpointEntry> RunFolder::latest() const {
  const auto entries = list();
  if (entries.empty()) return std::nullopt;
  return entries.back();
}

CheckpointEntry RunFolder::choose(const std::string& choice) const {
  const auto entries = list();
  if (entries.empty()) {
    throw CheckpointError(
        fmt::format("{}: no complete checkpoint in {}", root_.string(), checkpoints().string()));
  }
  int64_t step = entries.back().step;
  if (choice == "best") {
    step = Checkpoint::open(entries.back().folder).state().best_step;
    if (step == 0) {
      throw CheckpointError(fmt::format(
          "{}: no best checkpoint: this run was never evaluated. Use --checkpoint latest",
          root_.string()));
    }
  } else if (choice != "latest") {
    const auto number = parse_step(choice);
    if (!number) {
      throw ConfigError(
          fmt::format("checkpoint '{}': expected latest, best or a step number", choice));
    }
    step = *number;
  }
  for (const auto& entry : entries) {
    if (entry.step == step) return entry;
  }
  std::vector<int64_t> steps;
  for (const auto& entry : entries) steps.push_back(entry.step);
  throw CheckpointError(fmt::format(
      "{}: no checkpoint of step {}; there are: {}", root_.string(), step, fmt::join(steps, ", ")));
}

void RunFolder::create_and_lock() {
  std::error_code error;
  fs::create_directories(checkpoints(), error);
  if (error) {
    throw ConfigError(
        fmt::format("cannot make the run folder {}: {}", root_.string(), error.message()));
  }
  // A link here, in a folder from a stranger, would have checkpoints written and removed elsewhere.
  if (fs::is_symlink(checkpoints(), error)) {
    throw ConfigError(
        fmt::format("{}: is a link; a run is written inside its own folder only. Replace the link "
                    "by the folder, or let the whole run folder be one",
                    checkpoints().string()));
  }
  std::string owner;
  lock_ = FileLock::try_acquire(root_ / "lock", &owner);
  if (!lock_) {
    throw ConfigError(
        fmt::format("{}: another process is writing this run ({}). Wait for it, or "
                    "choose another --run-dir",
                    root_.string(),
                    owner));
  }
}

void RunFolder::remove_leftovers() const {
  std::error_code error;
  for (fs::directory_iterator it(checkpoints(), error), end; !error && it != end;
       it.increment(error)) {
    // A step_ folder without manifest is no left-over (a save gets its name when it is complete)
    // but damaged or half copied: it is ignored, not removed.
    std::error_code ignored;
    if (is_temporary_name(it->path())) fs::remove_all(it->path(), ignored);
  }
}

bool RunFolder::has_run() const {
  std::error_code ignored;
  return fs::exists(config_path(), ignored) || fs::exists(metrics_path(), ignored) ||
         !list().empty();
}

void RunFolder::remove_run_files() const {
  std::error_code ignored;
  fs::remove_all(checkpoints(), ignored);
  for (const auto& path : {metrics_path(), log_path(), config_path(), tokenizer_path()}) {
    fs::remove(path, ignored);
  }
  fs::create_directories(checkpoints(), ignored);
}

void RunFolder::prune(int64_t keep_last, std::optional<int64_t> best_step) const {
  if (keep_last <= 0) return;
  const auto entries = list();
  const auto n = static_cast<int64_t>(entries.size());
  for (int64_t i = 0; i < n - keep_last; ++i) {
    const auto& entry = entries[static_cast<size_t>(i)];
    if (best_step && entry.step == *best_step) continue;
    remove_checkpoint(entry.folder);
  }
}

void RunFolder::require_none_after(int64_t step) const {
  const auto newest = latest();
  if (!newest || newest->step <= step) return;
  throw ConfigError(fmt::format(
      "{}: holds a checkpoint of step {}, which a run that goes on from step {} would contradict. "
      "Go on from the latest, or write to another folder (--run-dir)",
      root_.string(),
      newest->step,
      step));
}

std::optional<CheckpointEntry> RunFolder::newest_intact(
    const std::function<void(const CheckpointEntry&, const std::string& fault)>& on_damaged) const {
  const auto entries = list();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    std::string fault;
    try {
      const auto faults = Checkpoint::open(entry->folder).verify();
      if (faults.empty()) return *entry;
      fault = faults.front();
    } catch (const CheckpointError& error) {
      fault = error.what();
    }
    on_damaged(*entry, fault);
  }
  return std::nullopt;
}

fs::path RunFolder::set_aside(const CheckpointEntry& damaged) const {
  std::error_code error;
  fs::path place;
  for (int i = 0; i == 0 || fs::exists(place, error); ++i) {
    place = checkpoints() / fmt::format("damaged_{}{}",
                                        damaged.folder.filename().string(),
                                        i == 0 ? "" : fmt::format("_{}", i));
  }
  fs::rename(damaged.folder, place, error);
  if (error) {
    throw ResourceError(fmt::format(
        "cannot rename {} to {}: {}", damaged.folder.string(), place.string(), error.message()));
  }
  fsync_folder(checkpoints());
  return place;
}

Checkpoint open_run_argument(const fs::path& run, const std::string& choice) {
  std::error_code ignored;
  if (!fs::exists(run, ignored)) {
    throw CheckpointError(fmt::format(
        "{}: there is no such folder. Expected a run folder or a checkpoint folder", run.string()));
  }
  if (!fs::is_directory(run, ignored)) {
    throw CheckpointError(
        fmt::format("{}: a file; expected a run folder or a checkpoint folder", run.string()));
  }
  if (Checkpoint::is_complete(run)) return Checkpoint::open(run);
  return Checkpoint::open(RunFolder(run).choose(choice).folder);
}

}  // namespace tril
