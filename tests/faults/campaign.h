#pragma once
// How many faults a test makes, and what it reports. The suite runs a short form; scripts/faults.sh
// runs the long one and makes the table of docs/reliability.md from the reports.

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "cli/workspace.h"

namespace tril::testing {

/// How many events: $TRIL_FAULTS_<CAMPAIGN>, else the short form's number.
inline int n_events(const std::string& campaign, int short_form) {
  const char* chosen = std::getenv(("TRIL_FAULTS_" + campaign).c_str());
  return chosen == nullptr ? short_form : std::atoi(chosen);
}

/// Instants are never the same twice, unless $TRIL_FAULTS_SEED repeats a failing run.
inline std::mt19937 fault_random() {
  const char* chosen = std::getenv("TRIL_FAULTS_SEED");
  const unsigned seed = chosen == nullptr
                            ? std::random_device{}()
                            : static_cast<unsigned>(std::strtoul(chosen, nullptr, 10));
  UNSCOPED_INFO("TRIL_FAULTS_SEED=" << seed);
  return std::mt19937(seed);
}

/// Counts events by outcome; at its end appends a JSON line to $TRIL_FAULTS_REPORT.
class Tally {
 public:
  /// `kind`: "kill", "signal", "disk full", "damaged file"; `where`: what it came upon.
  Tally(std::string kind, std::string where) : kind_(std::move(kind)), where_(std::move(where)) {}
  ~Tally() {
    const char* report = std::getenv("TRIL_FAULTS_REPORT");
    if (report == nullptr) return;
    Json line = {{"kind", kind_}, {"where", where_}, {"outcomes", outcomes_}};
    std::ofstream(report, std::ios::app) << line.dump() << "\n";
  }
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  void count(const std::string& outcome) { ++outcomes_[outcome]; }
  int of(const std::string& outcome) const {
    const auto found = outcomes_.find(outcome);
    return found == outcomes_.end() ? 0 : found->second;
  }

 private:
  std::string kind_;
  std::string where_;
  std::map<std::string, int> outcomes_;
};

/// The environment that makes faults in the files below `root` (see fault_shim.cpp).
inline ProcessOptions with_fault(const std::filesystem::path& root, const std::string& fault) {
  ProcessOptions options;
  options.environment["LD_PRELOAD"] = TRIL_FAULT_SHIM;
  options.environment["TRIL_FAULT_ROOT"] = root.string();
  options.environment["TRIL_FAULT"] = fault;
  return options;
}

/// The shim does not go with the address sanitizer, which must be the first library.
inline bool can_inject_faults() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}
#define REQUIRE_FAULT_SHIM() \
  if (!can_inject_faults()) TRIL_SKIP("a preloaded library does not go with the sanitizers")

inline std::string final_weights(const std::filesystem::path& run, int64_t step) {
  return read_text(checkpoint_folder(run, step) / "model.safetensors");
}

/// The step of the newest checkpoint; 0: there is none.
inline int64_t newest_step(const std::filesystem::path& run) {
  const auto names = names_in(run / "checkpoints");
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (name->starts_with("step_")) return std::stoll(name->substr(5));
  }
  return 0;
}

/// A run that faults are made in, and what it would have been without them.
class FaultRun {
 public:
  /// `options`: of tril train, without --run-dir.
  FaultRun(std::string options, int64_t steps) : steps_(steps) {
    train_ = "train --config tiny.json " + std::move(options) +
             " --set train.steps=" + std::to_string(steps) + " --run-dir ";
    seconds_ = workspace.require(train_ + "straight").wall_seconds;
  }

  std::filesystem::path folder() const { return workspace / "run"; }
  /// Starts, or goes on.
  std::string command() const { return train_ + "run --resume=auto"; }

  /// Sleeps from the start of a run to some instant of it, wherever that is on this machine: under
  /// a sanitizer, or beside other work, the first step may come after seconds.
  void sleep_to_an_instant(std::mt19937& random) const {
    const double share = std::uniform_real_distribution<double>(0.1, 0.8)(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(share * seconds_));
  }

  /// How many operations on files an undisturbed run makes.
  int count_operations() const {
    workspace.tril(command(), {}, with_fault(folder(), "count " + (workspace / "count").string()));
    std::filesystem::remove_all(folder());
    return std::stoi(read_text(workspace / "count"));
  }

  /// Every checkpoint that is there is whole.
  void require_sound() const {
    if (newest_step(folder()) == 0) return;
    const auto verified = workspace.tril("checkpoint verify run");
    INFO(verified.out << verified.err);
    REQUIRE(verified.exit_code == 0);
  }

  /// Goes on undisturbed to the end, and the end is that of the straight run: weights, losses,
  /// evaluations, and nothing left over.
  void require_same_end() const {
    workspace.require(command());
    REQUIRE(final_weights(folder(), steps_) == final_weights(workspace / "straight", steps_));
    const RunLog log = read_metrics(folder());
    const RunLog straight = read_metrics(workspace / "straight");
    REQUIRE(log.steps.size() == straight.steps.size());
    for (const auto& [step, line] : straight.steps) {
      INFO("step " << step);
      REQUIRE(log.loss(step) == line.at("loss").get<double>());
    }
    REQUIRE(log.validation_losses == straight.validation_losses);
    for (const auto& name : names_in(folder() / "checkpoints")) {
      INFO(name);
      REQUIRE(name.starts_with("step_"));
    }
  }

  void clear() const { std::filesystem::remove_all(folder()); }
  int64_t steps() const { return steps_; }

  Workspace workspace;

 private:
  std::string train_;
  int64_t steps_;
  double seconds_ = 0;  ///< that the straight run took
};

}  // namespace tril::testing
