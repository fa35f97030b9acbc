#pragma once
// Results on stdout. A reader that has gone away (| head) ends the command quietly.

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tril::cli {

/// Thrown when stdout is a pipe that nobody reads any more; main turns it into exit 0.
struct ClosedPipe {};

/// Writes bytes to stdout and flushes. Throws ClosedPipe, or ResourceError when stdout is full.
void write_out(std::string_view bytes);

/// write_out with a format.
template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_out(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tril::cli
