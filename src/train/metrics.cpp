#include "tril/train/metrics.h"

#include <spdlog/spdlog.h>

#include <cmath>

#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {
namespace {

/// The whole lines of `text` whose "step" is at most `last_step`.
std::string lines_up_to(const std::string& text, int64_t last_step) {
  std::string kept;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= last_step) kept += line + "\n";
  }
  return kept;
}

void cut_back(const std::filesystem::path& path, int64_t last_step) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const std::string text = read_file(path, FileRole::kCheckpoint);
  const std::string kept = lines_up_to(text, last_step);
  if (kept != text) write_file_atomically(path, kept);
}

}  // namespace

MetricsWriter::MetricsWriter(std::filesystem::path path, int64_t last_step)
    : file_((cut_back(path, last_step), path)) {}

void MetricsWriter::write(const StepMetrics& m) {
  OrderedJson json;
  json["step"] = m.step;
  json["tokens"] = m.tokens;
  json["loss"] = m.loss;
  json["perplexity"] = std::exp(m.loss);
  json["learning_rate"] = m.learning_rate;
  json["grad_norm"] = m.grad_norm;
  json["tokens_per_second"] = m.tokens_per_second;
  json["elapsed_seconds"] = m.elapsed_seconds;
  write_line(json);
}

void MetricsWriter::write(const EvalMetrics& m) {
  OrderedJson json;
  json["event"] = "eval";
  json["step"] = m.step;
  json["validation_loss"] = m.validation_loss;
  json["validation_perplexity"] = std::exp(m.validation_loss);
  json["tokens"] = m.tokens;
  json["bits_per_byte"] = m.bits_per_byte;
  write_line(json);
}

void MetricsWriter::write_line(const OrderedJson& json) {
  if (file_.write(dump_json(json, /*indent=*/-1) + '\n') || reported_) return;
  reported_ = true;
  spdlog::warn("{}: cannot be written: {}. Training goes on; lines are missing there",
               file_.path().string(),
               file_.error());
}

}  // namespace tril
