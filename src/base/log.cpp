#include "tril/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "posix_file.h"
#include "tril/base/append_file.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {

namespace {

/// "message" at info level, "warning: message" and the like at every other.
class PlainFormatter : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    if (message.level != spdlog::level::info) {
      const auto level = spdlog::level::to_string_view(message.level);
      out.append(level.data(), level.data() + level.size());
      append(out, ": ");
    }
    out.append(message.payload.data(), message.payload.data() + message.payload.size());
    append(out, "\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<PlainFormatter>();
  }

 private:
  static void append(spdlog::memory_buf_t& out, std::string_view text) {
    out.append(text.data(), text.data() + text.size());
  }
};

/// Appends lines to a file. The first failure is said on stderr; each later line tries anew, so
/// that a disk that was full for a while costs only the lines of that while.
class AppendSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit AppendSink(std::filesystem::path path) : file_(std::move(path)) {
    set_formatter_(std::make_unique<spdlog::pattern_formatter>(
        "%Y-%m-%d %H:%M:%S.%e %-8l %v", spdlog::pattern_time_type::local, "\n"));
    if (!file_.error().empty()) report();
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (!file_.write({line.data(), line.size()}) && !reported_) report();
  }
  void flush_() override {}  // every line is written at once

 private:
  void report() {
    reported_ = true;
    std::fprintf(stderr,
                 "warning: cannot write the log file %s: %s; going on without it\n",
                 shown(file_.path()).c_str(),
                 file_.error().c_str());
  }

  AppendFile file_;
  bool reported_ = false;
};

/// The sinks behind the default logger. spdlog's registry is global, so this is too.
struct Sinks {
  std::mutex mutex;
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all;
  std::shared_ptr<AppendSink> file;
  spdlog::level::level_enum level = spdlog::level::info;
};

Sinks& sinks() {
  static Sinks instance;
  return instance;
}

/// The logger passes what any of its sinks wants: a run's file has the info messages even when the
/// terminal is quiet. Call with the mutex held.
void update_logger_level(const Sinks& state) {
  spdlog::set_level(state.file ? std::min(state.level, spdlog::level::info) : state.level);
}

spdlog::level::level_enum parse_level(const std::string& name) {
  using Level = std::pair<const char*, spdlog::level::level_enum>;
  static constexpr std::array<Level, 6> kLevels{{{"trace", spdlog::level::trace},
                                                 {"debug", spdlog::level::debug},
                                                 {"info", spdlog::level::info},
                                                 {"warn", spdlog::level::warn},
                                                 {"error", spdlog::level::err},
                                                 {"off", spdlog::level::off}}};
  for (const auto& [known, level] : kLevels) {
    if (name == known) return level;
  }
  throw ConfigError("unknown log level \"" + escape_for_message(name) +
                    "\", expected trace, debug, info, warn, error or off");
}

}  // namespace

void init_logging(const std::string& level) {
  Sinks& state = sinks();
  const auto parsed = parse_level(level);
  const std::lock_guard lock(state.mutex);
  state.level = parsed;
  auto terminal = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  terminal->set_formatter(std::make_unique<PlainFormatter>());
  terminal->set_level(parsed);
  state.all = std::make_shared<spdlog::sinks::dist_sink_mt>();
  state.all->add_sink(terminal);
  if (state.file) state.all->add_sink(state.file);
  // Not through set_default_logger's formatter: each sink keeps its own.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("tril", state.all));
  update_logger_level(state);
}

void add_log_file(const std::filesystem::path& path) {
  Sinks& state = sinks();
  if (!state.all) init_logging("info");
  remove_log_file();
  const std::lock_guard lock(state.mutex);
  state.file = std::make_shared<AppendSink>(path);
  state.all->add_sink(state.file);
  update_logger_level(state);
}

void remove_log_file() {
  Sinks& state = sinks();
  const std::lock_guard lock(state.mutex);
  if (!state.file) return;
  state.all->remove_sink(state.file);
  state.file.reset();
  update_logger_level(state);
}

}  // namespace tril
