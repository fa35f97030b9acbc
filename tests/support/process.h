#pragma once
// Running programs from a test: arguments, stdin, environment and folder in; exit code, stdout,
// stderr and times out. Output goes to unnamed files, so a child never blocks on a full pipe and
// a test can look at it while the child runs.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tril::testing {

struct ProcessOptions {
  std::string input = {};                                              ///< stdin
  std::map<std::string, std::optional<std::string>> environment = {};  ///< nothing: unset
  std::filesystem::path folder = {};                                   ///< "": the test's own
  double timeout_seconds = 60;  ///< then SIGKILL, and `timed_out`
};

struct ProcessResult {
  std::string command;  ///< for messages
  int exit_code = -1;   ///< 128 + signal for a child that a signal ended
  bool timed_out = false;
  std::string out;
  std::string err;
  double wall_seconds = 0;
  double cpu_seconds = 0;  ///< user and system
};

/// A child process. The destructor kills one that still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> command, ProcessOptions options = {})
      : command_(std::move(command)), options_(std::move(options)) {
    start();
  }
  ~Process() {
    if (is_running()) {
      send(SIGKILL);
      reap(0);
    }
    for (const int fd : {in_, out_, err_}) close(fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }

  bool is_running() {
    reap(WNOHANG);
    return !status_;
  }

  std::string out_so_far() const { return content(out_); }
  std::string err_so_far() const { return content(err_); }

  /// True once `text` is in stderr; false when the child ends or the time is up before.
  bool wait_for_err(const std::string& text, double seconds = 30) {
    const auto found = [&] { return err_so_far().find(text) != std::string::npos; };
    while (elapsed() < seconds) {
      if (found()) return true;
      if (!is_running()) return found();
      nap();
    }
    return false;
  }

  /// True when the child ends within `seconds`.
  bool ends_within(double seconds) {
    const double start = elapsed();
    while (is_running()) {
      if (elapsed() - start > seconds) return false;
      nap();
    }
    return true;
  }

  /// Waits for the end, killing the child when its time is up.
  ProcessResult wait() {
    ProcessResult result;
    while (is_running()) {
      if (elapsed() > options_.timeout_seconds) {
        send(SIGKILL);
        reap(0);
        result.timed_out = true;
        break;
      }
      nap();
    }
    for (const auto& word : command_) result.command += (result.command.empty() ? "" : " ") + word;
    result.exit_code = WIFEXITED(*status_) ? WEXITSTATUS(*status_) : 128 + WTERMSIG(*status_);
    result.out = out_so_far();
    result.err = err_so_far();
    result.wall_seconds = wall_seconds_;
    result.cpu_seconds = seconds(usage_.ru_utime) + seconds(usage_.ru_stime);
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
  static double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  /// A file without a name; it goes when its last descriptor is closed.
  static int unnamed_file() {
    std::string name = (std::filesystem::temp_directory_path() / "tril-test-XXXXXX").string();
    const int fd = mkostemp(name.data(), O_CLOEXEC);
    if (fd < 0) throw std::runtime_error("mkostemp failed: " + name);
    unlink(name.c_str());
    return fd;
  }

  static std::string content(int fd) {
    std::string text;
    std::array<char, 1 << 16> buffer{};
    ssize_t n = 0;
    // pread: the child shares the file offset and must not see it move.
    while ((n = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
      text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
  }

  std::vector<std::string> child_environment() const {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text(*entry);
      if (!options_.environment.contains(text.substr(0, text.find('=')))) result.push_back(text);
    }
    for (const auto& [name, value] : options_.environment) {
      if (value) result.push_back(name + "=" + *value);
    }
    return result;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (auto& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  void start() {
    in_ = unnamed_file();
    out_ = unnamed_file();
    err_ = unnamed_file();
    if (pwrite(in_, options_.input.data(), options_.input.size(), 0) !=
        static_cast<ssize_t>(options_.input.size())) {
      throw std::runtime_error("cannot write the child's stdin");
    }
    auto environment = child_environment();
    const auto arguments = pointers(command_);
    const auto variables = pointers(environment);
    start_ = Clock::now();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {  // only system calls from here on
      dup2(in_, STDIN_FILENO);
      dup2(out_, STDOUT_FILENO);
      dup2(err_, STDERR_FILENO);
      if (options_.folder.empty() || chdir(options_.folder.c_str()) == 0) {
        execvpe(arguments[0], arguments.data(), variables.data());
      }
      _exit(127);
    }
  }

  void reap(int flags) {
    if (status_) return;
    int status = 0;
    pid_t pid = 0;
    do {
      pid = wait4(pid_, &status, flags, &usage_);
    } while (pid < 0 && errno == EINTR);
    if (pid != pid_) return;
    status_ = status;
    wall_seconds_ = elapsed();
  }

  std::vector<std::string> command_;
  ProcessOptions options_;
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::optional<int> status_;
  rusage usage_{};
  Clock::time_point start_;
  double wall_seconds_ = 0;
};

inline ProcessResult run_process(std::vector<std::string> command, ProcessOptions options = {}) {
  return Process(std::move(command), std::move(options)).wait();
}

}  // namespace tril::testing
