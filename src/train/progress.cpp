#include "tril/train/progress.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tril/plot/terminal_chart.h"

namespace tril {
namespace {

constexpr size_t kMostChartPoints = 2000;  ///< of the chart; then every second one is dropped
constexpr int kChartRows = 8;
constexpr size_t kChartColumns = 100;                        ///< at most
constexpr auto kLeastPause = std::chrono::milliseconds(50);  ///< between two live lines

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
};

TerminalSize terminal_size() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

bool stderr_is_live() {
  const char* kind = std::getenv("TERM");
  const bool is_dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return isatty(STDERR_FILENO) != 0 && !is_dumb && spdlog::should_log(spdlog::level::info);
}

void thin(std::vector<double>& values) {
  size_t n = 0;
  for (size_t i = 0; i < values.size(); i += 2) values[n++] = values[i];
  values.resize(n);
}

}  // namespace

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

std::string format_bytes(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return bytes >= 1e7 ? fmt::format("{:.0f} MB", bytes / 1e6)
                      : fmt::format("{:.1f} MB", bytes / 1e6);
}

std::string join_status(const std::vector<StatusField>& fields, size_t columns) {
  int most = 0;
  for (const auto& field : fields) most = std::max(most, field.rank);
  for (int rank = most; rank >= 0; --rank) {
    std::string line;
    for (const auto& field : fields) {
      if (field.rank > rank) continue;
      if (!line.empty()) line += "  ";
      line += field.text;
    }
    if (columns == 0 || line.size() <= columns) return line;
    if (rank == 0) return line.substr(0, columns);
  }
  return {};
}

Progress::Progress(ProgressOptions options) : options_(options), live_(stderr_is_live()) {}

Progress::~Progress() {
  clear();
}

void Progress::step(const StepMetrics& m) {
  const bool is_first = first_.step == 0;
  if (is_first) first_ = m;
  smoothed_loss_ = is_first ? m.loss : 0.9 * smoothed_loss_ + 0.1 * m.loss;
  smoothed_rate_ =
      is_first ? m.tokens_per_second : 0.8 * smoothed_rate_ + 0.2 * m.tokens_per_second;
  most_memory_bytes_ = std::max(most_memory_bytes_, m.memory_bytes);
  last_ = m;
  steps_.push_back(static_cast<double>(m.step));
  smoothed_.push_back(smoothed_loss_);
  if (steps_.size() > kMostChartPoints) {
    thin(steps_);
    thin(smoothed_);
  }

  tokens_per_step_ = static_cast<double>(m.tokens) / static_cast<double>(m.step);
  const double eta =
      static_cast<double>(options_.total_steps - m.step) * tokens_per_step_ / smoothed_rate_;
  std::vector<StatusField> fields{{fmt::format("step {:>{}}/{}",
                                               m.step,
                                               std::to_string(options_.total_steps).size(),
                                               options_.total_steps),
                                   0},
                                  {fmt::format("loss {:.4f}", m.loss), 0},
                                  {fmt::format("smoothed {:.4f}", smoothed_loss_), 3},
                                  {fmt::format("perplexity {:.2f}", std::exp(m.loss)), 2},
                                  {fmt::format("lr {:.2e}", m.learning_rate), 4},
                                  {fmt::format("grad {:.2f}", m.grad_norm), 7},
                                  {fmt::format("{} tokens/s", format_count(smoothed_rate_)), 1}};
  if (options_.peak_flops > 0) {
    const double share = options_.flops_per_token * smoothed_rate_ / options_.peak_flops;
    fields.push_back({fmt::format("{:.0f} % of peak", 100 * share), 5});
  }
  if (m.memory_bytes > 0) {
    fields.push_back({format_bytes(static_cast<double>(m.memory_bytes)), 6});
  }
  fields.push_back({fmt::format("ETA {}", format_duration(eta)), 0});
  if (live_) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_shown_ < kLeastPause && m.step != options_.total_steps) return;
    last_shown_ = now;
    show(join_status(fields, terminal_size().columns - 1));
  } else {
    spdlog::info("{}", join_status(fields, 0));
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
  eval_steps_.push_back(static_cast<double>(m.step));
  eval_losses_.push_back(m.validation_loss);
  if (eval_steps_.size() > kMostChartPoints) {
    thin(eval_steps_);
    thin(eval_losses_);
  }
  update_chart();
}

void Progress::update_chart() {
  chart_.clear();
  const TerminalSize size = terminal_size();
  if (!live_ || size.columns < 40 || size.rows < kChartRows + 6 || steps_.size() < 2) return;
  chart_ = render_terminal_chart({
      .series = {{.name = "loss, smoothed", .x = steps_, .y = smoothed_, .mark = '.'},
                 {.name = "validation",
                  .x = eval_steps_,
                  .y = eval_losses_,
                  .mark = '+',
                  .points = true}},
      .x_label = "step",
      .width = static_cast<int>(std::min(size.columns - 1, kChartColumns)),
      .height = kChartRows,
      .unicode = terminal_shows_utf8(),
  });
}

void Progress::activity(const std::string& what) {
  if (live_) show(what);
}

void Progress::sample(int64_t step, const std::string& text) {
  clear();
  spdlog::info("sample at step {}:\n{}\n", step, text);
}

void Progress::show(const std::string& status) {
  const size_t columns = terminal_size().columns;
  const bool with_chart =
      !chart_.empty() && std::all_of(chart_.begin(), chart_.end(), [&](const std::string& line) {
        return display_columns(line) < columns;  // the window may have become narrower
      });
  std::string text = "\r";
  if (lines_shown_ > 1) text += fmt::format("\033[{}A", lines_shown_ - 1);
  text += "\033[J";
  lines_shown_ = 1;
  if (with_chart) {
    for (const auto& line : chart_) text += line + "\n";
    lines_shown_ += chart_.size();
  }
  text += status;
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

void Progress::clear() {
  if (lines_shown_ == 0) return;
  std::string text = "\r";
  if (lines_shown_ > 1) text += fmt::format("\033[{}A", lines_shown_ - 1);
  std::fputs((text + "\033[J").c_str(), stderr);
  std::fflush(stderr);
  lines_shown_ = 0;
}

void Progress::summary() {
  clear();
  if (first_.step == 0) return;
  update_chart();
  if (live_) {
    for (const auto& line : chart_) std::fputs((line + "\n").c_str(), stderr);
  }
  // The first logged line already stands for the steps before it, so this is the whole session.
  const double n_tokens = static_cast<double>(last_.tokens - first_.tokens) +
                          first_.tokens_per_second * first_.elapsed_seconds;
  spdlog::info("trained     {} tokens in {}, {} tokens/s with everything{}",
               format_count(n_tokens),
               format_duration(last_.elapsed_seconds),
               format_count(n_tokens / std::max(last_.elapsed_seconds, 1e-9)),
               most_memory_bytes_ > 0
                   ? fmt::format(", at most {} of memory",
                                 format_bytes(static_cast<double>(most_memory_bytes_)))
                   : "");
  spdlog::info("loss        {:.4f} at step {}, {:.4f} (smoothed) at step {}",
               first_.loss,
               first_.step,
               smoothed_loss_,
               last_.step);
}

}  // namespace tril
