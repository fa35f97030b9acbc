#pragma once
// Where messages go: stderr through spdlog. Generated text and --json results go to stdout, never
// here.

#include <filesystem>
#include <string>

#include <spdlog/spdlog.h>

namespace tril {

/// Sends spdlog's default logger to stderr: messages without decoration at info level, with the
/// level in front from warning up. `level`: trace, debug, info, warn, error, off (else
/// ConfigError).
void init_logging(const std::string& level);

/// Also appends every message, with its time, to a file (a run's train.log) from now on. A file
/// that cannot be written is reported once and then given up: logging never stops a run.
void add_log_file(const std::filesystem::path& path);

/// Stops writing to the file of add_log_file.
void remove_log_file();

}  // namespace tril
