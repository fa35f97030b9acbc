#include "tril/train/progress.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace tril {

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {:02} h", s / 86400, s / 3600 % 24);
}

std::string format_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e4) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

Progress::Progress(int64_t total_steps)
    : live_(isatty(STDERR_FILENO) != 0 && spdlog::should_log(spdlog::level::info)),
      total_steps_(total_steps) {}

Progress::~Progress() {
  clear();
}

void Progress::step(const StepMetrics& m) {
  const bool is_first = smoothed_loss_ == 0;
  smoothed_loss_ = is_first ? m.loss : 0.9 * smoothed_loss_ + 0.1 * m.loss;
  smoothed_rate_ =
      is_first ? m.tokens_per_second : 0.8 * smoothed_rate_ + 0.2 * m.tokens_per_second;
  const double tokens_per_step = static_cast<double>(m.tokens) / static_cast<double>(m.step);
  const double eta = static_cast<double>(total_steps_ - m.step) * tokens_per_step / smoothed_rate_;
  const std::string line = fmt::format(
      "step {:>{}}/{}  loss {:.4f}  perplexity {:.2f}  lr {:.2e}  grad {:.2f}  {} tokens/s  ETA {}",
      m.step,
      std::to_string(total_steps_).size(),
      total_steps_,
      m.loss,
      std::exp(m.loss),
      m.learning_rate,
      m.grad_norm,
      format_count(smoothed_rate_),
      format_duration(eta));
  if (live_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    std::fflush(stderr);
    line_shown_ = true;
  } else {
    spdlog::info("{}", line);
  }
}

void Progress::evaluation(const EvalMetrics& m, double floor, bool is_best) {
  clear();
  spdlog::info(
      "step {}  validation loss {:.4f}  perplexity {:.2f}  bits/byte {:.3f}{}{}",
      m.step,
      m.validation_loss,
      std::exp(m.validation_loss),
      m.bits_per_byte,
      floor >= 0
          ? fmt::format("  ({:.4f} above the floor {:.4f})", m.validation_loss - floor, floor)
          : "",
      is_best ? "  best so far" : "");
}

void Progress::activity(const std::string& what) {
  if (!live_) return;
  std::fprintf(stderr, "\r\033[K%s", what.c_str());
  std::fflush(stderr);
  line_shown_ = true;
}

void Progress::sample(int64_t step, const std::string& text) {
  clear();
  spdlog::info("sample at step {}:\n{}\n", step, text);
}

void Progress::clear() {
  if (!line_shown_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  line_shown_ = false;
}

}  // namespace tril
