#pragma once
// Whole training runs of a tiny model on a tiny text, in a TempDir.

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "support/tiny.h"
#include "tril/base/fingerprint.h"
#include "tril/base/json.h"
#include "tril/tokenizer/char_tokenizer.h"
#include "tril/train/trainer.h"

namespace tril::testing {

/// train.max_minutes or checkpoint.interval_minutes that is over after every step.
inline constexpr double kNoTime = 1e-12;

inline const char* const kTinyText = "the cat sat on the mat and the dog sat on the log. ";

/// Token files of two texts with one character vocabulary; no validation for an empty text.
inline TrainingData tiny_data(const std::filesystem::path& folder,
                              const std::string& train,
                              const std::string& validation = "") {
  const auto tokenizer =
      std::make_shared<const CharTokenizer>(CharTokenizer::from_text(train + validation));
  const auto write = [&](const std::string& name, const std::string& text) {
    TokenFileWriter writer(folder / name, tokenizer->vocab_size(), tokenizer->fingerprint());
    writer.append(tokenizer->encode(text));
    writer.finish();
    return TokenFile::open(folder / name);
  };
  TrainingData data;
  data.tokenizer = tokenizer;
  data.train = write("train.tokens", train);
  data.train_fingerprint = fingerprint(train);
  if (!validation.empty()) {
    data.validation = write("validation.tokens", validation);
    data.validation_fingerprint = fingerprint(validation);
  }
  return data;
}

/// 10 steps of 4 windows of 8 tokens at a high rate, every step logged, one checkpoint at the end.
inline RunConfig tiny_run_config(const TrainingData& data) {
  RunConfig config;
  config.seed = 7;
  config.model = tiny_config();
  config.model.vocab_size = data.tokenizer->vocab_size();
  config.optimizer.learning_rate = 1e-2;
  config.schedule.name = ScheduleName::kConstant;
  config.schedule.warmup_steps = 0;
  config.train.steps = 10;
  config.train.batch_size = 4;
  config.train.log_interval = 1;
  config.train.eval_interval = 0;
  config.checkpoint.interval = 0;
  return config;
}

/// A trainer with all it refers to. `config` may be changed between calls of run().
class TinyRun {
 public:
  TinyRun(RunConfig run_config,
          const TrainingData& data,
          const std::filesystem::path& root,
          torch::ScalarType precision = torch::kFloat32,
          torch::Device device = torch::kCPU)
      : config(std::move(run_config)),
        choices{.device = device, .precision = precision},
        folder(root),
        trainer((quiet(), make_folder(root), config), choices, data, folder) {}
  TinyRun(const TinyRun&) = delete;
  TinyRun& operator=(const TinyRun&) = delete;

  /// A whole run from fresh weights.
  TrainOutcome start_and_run() {
    trainer.start();
    return trainer.run();
  }
  TrainOutcome resume_and_run() {
    trainer.resume(Checkpoint::open(folder.latest().value().folder));
    return trainer.run();
  }

  /// Lines of metrics.jsonl: of steps, or of evaluations.
  std::vector<Json> metrics(bool evaluations = false) const {
    std::vector<Json> lines;
    std::istringstream text(read_text(folder.metrics_path()));
    for (std::string line; std::getline(text, line);) {
      lines.push_back(Json::parse(line));
      const std::string event = lines.back().value("event", "");
      if (event != (evaluations ? "eval" : "")) lines.pop_back();
    }
    return lines;
  }
  std::vector<double> losses() const {
    std::vector<double> result;
    for (const Json& line : metrics()) result.push_back(line.at("loss").get<double>());
    return result;
  }
  std::vector<int64_t> saved_steps() const {
    std::vector<int64_t> result;
    for (const auto& entry : folder.list()) result.push_back(entry.step);
    return result;
  }

  RunConfig config;
  ResolvedChoices choices;
  RunFolder folder;
  Trainer trainer;

 private:
  static void quiet() { spdlog::set_level(spdlog::level::err); }
  static void make_folder(const std::filesystem::path& root) {
    std::filesystem::create_directories(root / "checkpoints");
  }
};

}  // namespace tril::testing
