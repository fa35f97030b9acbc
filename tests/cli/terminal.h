#pragma once
// A program on a terminal of its own (a pseudo-terminal): what a person would see it write.

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tril::testing {

struct TerminalResult {
  int exit_code = -1;
  std::string screen;  ///< all bytes written, escape sequences included
};

/// Runs `command` in `folder` with stdin, stdout and stderr on a terminal of this size.
inline TerminalResult run_on_terminal(std::vector<std::string> command,
                                      const std::filesystem::path& folder,
                                      const std::map<std::string, std::string>& environment,
                                      unsigned short columns,
                                      unsigned short rows) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
    throw std::runtime_error("no pseudo-terminal");
  }
  winsize size{};
  size.ws_col = columns;
  size.ws_row = rows;
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  ioctl(slave, TIOCSWINSZ, &size);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    for (const int fd : {0, 1, 2}) dup2(slave, fd);
    if (chdir(folder.c_str()) == 0) execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(slave);
  TerminalResult result;
  char buffer[4096];
  for (;;) {  // ends when the last writer has closed the terminal (EIO)
    pollfd wait{.fd = master, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, 60'000) <= 0) break;
    const ssize_t n = read(master, buffer, sizeof buffer);
    if (n <= 0) break;
    result.screen.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  close(master);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

/// Plays what a program wrote on a screen of `columns` columns: \r, \n, cursor up and clear-to-end
/// are understood. Gives the lines that a person sees at the end; a line of more than `columns`
/// characters throws, since a real terminal would wrap it.
inline std::vector<std::string> play_screen(const std::string& bytes, size_t columns) {
  std::vector<std::string> lines(1);
  size_t row = 0;
  size_t column = 0;  // in characters
  const auto byte_at = [&](const std::string& line, size_t n_characters) {
    size_t at = 0;
    for (; at < line.size() && n_characters > 0; --n_characters) {
      do ++at;
      while (at < line.size() && (line[at] & 0xC0) == 0x80);
    }
    return at;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (c == '\r') {
      column = 0;
    } else if (c == '\n') {
      if (++row == lines.size()) lines.emplace_back();
      column = 0;
    } else if (c == '\033' && i + 1 < bytes.size() && bytes[i + 1] == '[') {
      size_t end = i + 2;
      while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
      const std::string argument = bytes.substr(i + 2, end - i - 2);
      if (end < bytes.size() && bytes[end] == 'A') {
        row -= std::min(row, static_cast<size_t>(argument.empty() ? 1 : std::stoi(argument)));
      } else if (end < bytes.size() && bytes[end] == 'J') {
        lines.resize(row + 1);
        lines[row].resize(byte_at(lines[row], column));
      } else if (end < bytes.size() && bytes[end] == 'K') {
        lines[row].resize(byte_at(lines[row], column));
      }
      i = end;
    } else {
      size_t length = 1;
      while (i + length < bytes.size() && (bytes[i + length] & 0xC0) == 0x80) ++length;
      if (column >= columns) throw std::runtime_error("a line is too long: " + lines[row]);
      const size_t at = byte_at(lines[row], column);
      const size_t after = byte_at(lines[row], column + 1);
      lines[row].replace(at, after - at, bytes, i, length);
      i += length - 1;
      ++column;
    }
  }
  return lines;
}

}  // namespace tril::testing
