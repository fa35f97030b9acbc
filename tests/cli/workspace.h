#pragma once
// A folder to run the real program in, with a small text and a config that trains in milliseconds.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/fingerprint.h"
#include "tril/base/json.h"
#include "tril/base/safetensors.h"

namespace tril::testing {

/// The project's folder.
inline const std::filesystem::path kProject = TRIL_SOURCE_DIR;

/// Trains the workspace's model; options may follow.
inline constexpr const char* kTrain = "train --config tiny.json --run-dir run ";

/// The cache folder of every program that this test process starts: not the user's.
inline const std::filesystem::path& test_cache() {
  static const TempDir folder;
  return folder.path();
}

inline std::vector<std::string> split_words(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// Words in no order, the same at every call: about 2000 characters of 13 kinds, newlines among
/// them.
inline std::string small_text(int n_words = 500) {
  static constexpr std::array kWords = {"the", "cat", "sat", "on", "a", "mat", "dog"};
  std::string text;
  uint32_t state = 1;
  for (int i = 1; i <= n_words; ++i) {
    state = state * 1664525U + 1013904223U;
    text += kWords[(state >> 16) % kWords.size()];
    text += i % 10 == 0 ? '\n' : ' ';
  }
  return text;
}

/// A text of so many kinds of characters (printable ASCII from '!' on), in no order.
inline std::string text_of_kinds(int n_kinds, int length) {
  std::string text;
  uint32_t state = 7;
  for (int i = 0; i < length; ++i) {
    state = state * 1664525U + 1013904223U;
    const auto kind =
        i < n_kinds ? i : static_cast<int>((state >> 16) % static_cast<uint32_t>(n_kinds));
    text += static_cast<char>('!' + kind);
  }
  return text;
}

class Workspace {
 public:
  Workspace() {
    write_text(dir_ / "text.txt", small_text());
    write_text(dir_ / "tiny.json", R"({
      "threads": 1,
      "data": {"train": "text.txt"},
      "model": {"context_length": 16, "n_embed": 16, "n_head": 2, "n_blocks": 1},
      "schedule": {"warmup_steps": 2},
      "train": {"steps": 10, "batch_size": 4, "log_interval": 1, "eval_interval": 0},
      "checkpoint": {"interval": 5}
    })");
  }

  std::filesystem::path operator/(const std::string& name) const { return dir_ / name; }

  ProcessOptions options(ProcessOptions options = {}) const {
    options.environment.try_emplace("TRIL_CACHE", test_cache().string());
    if (options.folder.empty()) options.folder = dir_.path();
    return options;
  }

  /// tril with the words of `line`, then `more` as they are.
  ProcessResult tril(const std::string& line,
                     const std::vector<std::string>& more = {},
                     ProcessOptions with = {}) const {
    return run_process(command(line, more), options(std::move(with)));
  }

  /// The same in the background.
  std::unique_ptr<Process> start(const std::string& line, ProcessOptions with = {}) const {
    return std::make_unique<Process>(command(line, {}), options(std::move(with)));
  }

  /// A shell script; "$0" is the program.
  ProcessResult bash(const std::string& script, ProcessOptions with = {}) const {
    return run_process({"bash", "-c", script, TRIL_BINARY}, options(std::move(with)));
  }

  /// Runs what a test needs, and stops the test when that fails.
  ProcessResult require(const std::string& line, const std::vector<std::string>& more = {}) const {
    ProcessResult result = tril(line, more);
    INFO(result.command << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    return result;
  }

  Json json(const std::string& line,
            const std::vector<std::string>& more = {},
            ProcessOptions with = {}) const {
    const ProcessResult result = tril(line, more, std::move(with));
    INFO(result.command << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    return Json::parse(result.out);
  }

 private:
  static std::vector<std::string> command(const std::string& line,
                                          const std::vector<std::string>& more) {
    std::vector<std::string> words = split_words(line);
    words.insert(words.begin(), TRIL_BINARY);
    words.insert(words.end(), more.begin(), more.end());
    // A tiny model gains nothing from a second thread, and loses much where other tests run too.
    const bool computes =
        line.starts_with("generate") || line.starts_with("evaluate") || line.starts_with("inspect");
    if (computes) words.insert(words.begin() + 1, {"--threads", "1"});
    return words;
  }

  TempDir dir_;
};

/// The last line of stderr.
inline std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const auto begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

/// Checks that a command was refused as DESIGN §3 says: this exit code, an "error: " on stderr that
/// is no bug of ours and no backtrace, nothing on stdout. Returns the message.
inline std::string refused(const ProcessResult& result, int exit_code) {
  INFO(result.command << "\n" << result.out << result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  const auto at = result.err.find("error: ");
  REQUIRE(at != std::string::npos);
  const std::string message = result.err.substr(at + 7);
  CHECK(message.find("bug in tril") == std::string::npos);
  CHECK(message.find("frame #") == std::string::npos);
  return message;
}

struct RunLog {
  std::map<int64_t, Json> steps;
  std::map<int64_t, double> validation_losses;

  double loss(int64_t step) const { return steps.at(step).at("loss").get<double>(); }
  double learning_rate(int64_t step) const {
    return steps.at(step).at("learning_rate").get<double>();
  }
};

/// metrics.jsonl of a run. A step that is there twice stops the test.
inline RunLog read_metrics(const std::filesystem::path& run) {
  RunLog log;
  std::istringstream lines(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    const auto step = json.at("step").get<int64_t>();
    INFO(line);
    if (json.value("event", "") == "eval") {
      REQUIRE(log.validation_losses.emplace(step, json.at("validation_loss").get<double>()).second);
    } else if (!json.contains("event")) {
      REQUIRE(log.steps.emplace(step, json).second);
    }
  }
  return log;
}

/// Folder of a checkpoint, by the layout of DESIGN §7.
inline std::filesystem::path checkpoint_folder(const std::filesystem::path& run, int64_t step) {
  const std::string digits = std::to_string(step);
  return run / "checkpoints" / ("step_" + std::string(8 - digits.size(), '0') + digits);
}

/// Names in a folder, sorted; none for a folder that is not there.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Makes the manifest of a checkpoint agree with a file that a test has changed.
inline void update_manifest(const std::filesystem::path& checkpoint, const std::string& name) {
  Json manifest = Json::parse(read_text(checkpoint / "manifest.json"));
  const std::string bytes = read_text(checkpoint / name);
  manifest["files"][name] = {{"bytes", bytes.size()}, {"xxh3", fingerprint(bytes)}};
  write_text(checkpoint / "manifest.json", manifest.dump());
}

/// Sets every number of a checkpoint's weights to `value`, or the first one only, and keeps the
/// checkpoint valid.
enum class Which { kAll, kFirst };
inline void overwrite_weights(const std::filesystem::path& checkpoint, float value, Which which) {
  const std::filesystem::path path = checkpoint / "model.safetensors";
  std::string bytes = read_text(path);
  {
    const auto file = SafetensorsFile::open(path);
    uint64_t data_bytes = 0;
    for (const auto& tensor : file.tensors()) data_bytes = std::max(data_bytes, tensor.end);
    const size_t data_offset = bytes.size() - data_bytes;
    for (const auto& tensor : file.tensors()) {
      REQUIRE(tensor.dtype == "F32");
      for (uint64_t at = tensor.begin; at < tensor.end; at += sizeof value) {
        std::memcpy(bytes.data() + data_offset + at, &value, sizeof value);
        if (which == Which::kFirst) break;
      }
      if (which == Which::kFirst) break;
    }
  }
  write_text(path, bytes);
  update_manifest(checkpoint, "model.safetensors");
}

/// The bytes of the weights that a run saved at a step.
inline std::string weights_of(const Workspace& workspace, const std::string& run, int64_t step) {
  return read_text(checkpoint_folder(workspace / run, step) / "model.safetensors");
}

}  // namespace tril::testing
