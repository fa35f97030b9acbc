#include "tril/report/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kMostMetricsBytes = uint64_t{1} << 30;
constexpr size_t kMostParts = 1000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : kNaN;
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Builds a record line by line.
class RecordBuilder {
 public:
  explicit RecordBuilder(std::string name) { record_.name = std::move(name); }

  void add(const Json& line) {
    const std::string event = text(line, "event");
    if (event.empty()) add_step(line);
    if (event == "start") add_start(line);
    if (event == "eval") add_evaluation(line);
    if (event == "blocks") add_blocks(line);
    if (event == "sample") {
      record_.samples.push_back(
          {line["step"].get<int64_t>(), text(line, "prompt"), text(line, "text")});
    }
  }

  RunRecord take() { return std::move(record_); }

 private:
  void add_start(const Json& line) {
    record_.start = line;
    ++record_.n_sessions;
    seconds_before_ = last_seconds();
    session_seconds_ = 0;
  }

  void add_step(const Json& line) {
    StepSeries& s = record_.steps;
    double elapsed = number(line, "elapsed_seconds");
    if (!std::isfinite(elapsed)) elapsed = session_seconds_;
    // A session without a "start" line: the clock went back.
    if (elapsed < session_seconds_) seconds_before_ = last_seconds();
    session_seconds_ = elapsed;
    s.step.push_back(number(line, "step"));
    s.tokens.push_back(number(line, "tokens"));
    s.seconds.push_back(seconds_before_ + elapsed);
    s.loss.push_back(number(line, "loss"));
    s.learning_rate.push_back(number(line, "learning_rate"));
    s.grad_norm.push_back(number(line, "grad_norm"));
    s.tokens_per_second.push_back(number(line, "tokens_per_second"));
    s.memory_bytes.push_back(number(line, "memory_bytes"));
  }

  void add_evaluation(const Json& line) {
    EvalSeries& e = record_.evals;
    const StepSeries& s = record_.steps;
    e.step.push_back(number(line, "step"));
    e.tokens.push_back(s.tokens.empty() ? kNaN : s.tokens.back());
    e.seconds.push_back(last_seconds());
    e.loss.push_back(number(line, "validation_loss"));
    e.bits_per_byte.push_back(number(line, "bits_per_byte"));
    const double floor = number(line, "floor");
    if (std::isfinite(floor)) record_.floor = floor;
  }

  void add_blocks(const Json& line) {
    BlockSeries& b = record_.blocks;
    const auto names = line.find("names");
    if (names == line.end() || !names->is_array() || names->size() > kMostParts) return;
    std::vector<std::string> found;
    for (const auto& name : *names)
      found.push_back(name.is_string() ? name.get<std::string>() : "?");
    if (b.names.empty()) {
      b.names = found;
      b.weight_rms.resize(found.size());
      b.grad_norm.resize(found.size());
    }
    if (found != b.names) return;
    b.step.push_back(number(line, "step"));
    add_numbers(line, "weight_rms", b.weight_rms);
    add_numbers(line, "grad_norm", b.grad_norm);
  }

  static void add_numbers(const Json& line, const char* key, std::vector<std::vector<double>>& to) {
    const auto values = line.find(key);
    for (size_t i = 0; i < to.size(); ++i) {
      const bool is_there = values != line.end() && values->is_array() && i < values->size() &&
                            (*values)[i].is_number();
      to[i].push_back(is_there ? (*values)[i].get<double>() : kNaN);
    }
  }

  double last_seconds() const {
    return record_.steps.seconds.empty() ? 0 : record_.steps.seconds.back();
  }

  RunRecord record_;
  double seconds_before_ = 0;   ///< of the sessions before this one
  double session_seconds_ = 0;  ///< of this one
};

Json read_config(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return nullptr;
  try {
    return read_json_file(path, FileRole::kCheckpoint, /*max_bytes=*/uint64_t{1} << 20);
  } catch (const Error&) {
    return nullptr;  // a report without the config is better than none
  }
}

}  // namespace

std::vector<Json> parse_metrics(std::string_view metrics, int64_t* n_bad) {
  std::vector<Json> lines;
  for (size_t begin = 0, end; (end = metrics.find('\n', begin)) != std::string_view::npos;
       begin = end + 1) {
    const std::string_view line = metrics.substr(begin, end - begin);
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool is_good =
        json.is_object() && json.contains("step") && json["step"].is_number_integer();
    if (is_good) {
      lines.push_back(std::move(json));
    } else if (n_bad != nullptr) {
      ++*n_bad;
    }
  }
  return lines;
}

RunRecord make_record(std::string name, std::string_view metrics) {
  RecordBuilder builder(std::move(name));
  int64_t n_bad = 0;
  for (const Json& line : parse_metrics(metrics, &n_bad)) builder.add(line);
  RunRecord record = builder.take();
  record.n_bad_lines = n_bad;
  return record;
}

RunRecord read_run(const fs::path& run) {
  const fs::path metrics = run / "metrics.jsonl";
  std::error_code ignored;
  if (!fs::exists(metrics, ignored)) {
    throw CheckpointError(
        fmt::format("{}: {}. A report needs the folder of a run, which tril train --run-dir made",
                    run.string(),
                    fs::exists(run, ignored) ? "holds no metrics.jsonl" : "does not exist"));
  }
  RunRecord record = make_record(run.lexically_normal().string(),
                                 read_file(metrics, FileRole::kCheckpoint, kMostMetricsBytes));
  record.config = read_config(run / "config.json");
  return record;
}

std::string metrics_csv(std::string_view metrics) {
  static constexpr std::array kColumns{"step",
                                       "tokens",
                                       "loss",
                                       "perplexity",
                                       "learning_rate",
                                       "grad_norm",
                                       "tokens_per_second",
                                       "elapsed_seconds",
                                       "memory_bytes",
                                       "validation_loss",
                                       "validation_perplexity",
                                       "bits_per_byte",
                                       "floor"};
  std::map<int64_t, std::map<std::string, std::string>> rows;
  for (const Json& line : parse_metrics(metrics)) {
    const std::string event = text(line, "event");
    if (!event.empty() && event != "eval") continue;
    auto& row = rows[line["step"].get<int64_t>()];
    for (const char* column : kColumns) {
      // An evaluation's own tokens are those it scored.
      if (event == "eval" && std::string_view(column) == "tokens") continue;
      const auto found = line.find(column);
      if (found != line.end() && found->is_number()) row[column] = found->dump();
    }
  }
  std::string out;
  for (const char* column : kColumns) out += fmt::format("{}{}", out.empty() ? "" : ",", column);
  out += '\n';
  for (auto& [step, row] : rows) {
    bool is_first = true;
    for (const char* column : kColumns) {
      if (!is_first) out += ',';
      is_first = false;
      out += row[column];
    }
    out += '\n';
  }
  return out;
}

std::vector<double> smoothed(const std::vector<double>& values, double memory) {
  std::vector<double> result;
  result.reserve(values.size());
  double sum = 0;
  double weight = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      result.push_back(kNaN);
      continue;
    }
    sum = memory * sum + (1 - memory) * value;
    weight = memory * weight + (1 - memory);
    result.push_back(sum / weight);
  }
  return result;
}

double default_memory(size_t n) {
  return std::clamp(1.0 - 1.0 / (static_cast<double>(n) / 100.0 + 1.0), 0.0, 0.99);
}

}  // namespace tril
