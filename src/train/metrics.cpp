#include "tril/train/metrics.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>

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

MetricsWriter::MetricsWriter(std::filesystem::path path,
                             int64_t last_step,
                             const std::filesystem::path& tensorboard)
    : file_((cut_back(path, last_step), path)) {
  if (!tensorboard.empty()) tensorboard_.emplace(tensorboard, last_step);
}

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
  json["memory_bytes"] = m.memory_bytes;
  if (m.loss_scale) json["loss_scale"] = *m.loss_scale;
  write_line(json);
  write_scalars(
      {.step = m.step,
       .scalars = {{"train/loss", static_cast<float>(m.loss)},
                   {"train/perplexity", static_cast<float>(std::exp(m.loss))},
                   {"train/learning_rate", static_cast<float>(m.learning_rate)},
                   {"train/grad_norm", static_cast<float>(m.grad_norm)},
                   {"train/tokens_per_second", static_cast<float>(m.tokens_per_second)}}});
}

void MetricsWriter::write(const EvalMetrics& m) {
  OrderedJson json;
  json["event"] = "eval";
  json["step"] = m.step;
  json["validation_loss"] = m.validation_loss;
  json["validation_perplexity"] = std::exp(m.validation_loss);
  json["tokens"] = m.tokens;
  json["bits_per_byte"] = m.bits_per_byte;
  if (m.floor >= 0) json["floor"] = m.floor;
  write_line(json);
  write_scalars(
      {.step = m.step,
       .scalars = {{"validation/loss", static_cast<float>(m.validation_loss)},
                   {"validation/perplexity", static_cast<float>(std::exp(m.validation_loss))},
                   {"validation/bits_per_byte", static_cast<float>(m.bits_per_byte)}}});
}

void MetricsWriter::write(std::string_view event, int64_t step, const OrderedJson& fields) {
  OrderedJson json;
  json["event"] = event;
  json["step"] = step;
  for (const auto& [key, value] : fields.items()) json[key] = value;
  write_line(json);
}

void MetricsWriter::write_line(const OrderedJson& json) {
  if (file_.write(dump_json(json, /*indent=*/-1) + '\n') || reported_) return;
  reported_ = true;
  spdlog::warn("{}: cannot be written: {}. Training goes on; lines are missing there",
               file_.path().string(),
               file_.error());
}

void MetricsWriter::write_scalars(TensorboardEvent event) {
  if (!tensorboard_) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  event.wall_seconds = std::chrono::duration<double>(now).count();
  if (tensorboard_->write(event)) return;
  spdlog::warn("the TensorBoard file of {} cannot be written; training goes on without it",
               file_.path().parent_path().string());
  tensorboard_.reset();
}

int64_t resident_memory_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (!(file >> total_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace tril
