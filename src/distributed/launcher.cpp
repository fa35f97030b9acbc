#include "tril/distributed/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "tril/base/error.h"
#include "tril/base/loopback_listener.h"

extern char** environ;

namespace tril {
namespace {

using LaunchClock = std::chrono::steady_clock;

constexpr int kSignalExit = 128;
constexpr auto kPollPause = std::chrono::milliseconds(20);

struct Child {
  pid_t pid = -1;
  std::optional<int> exit_code;  ///< 128 + signal when a signal ended it
  bool killed = false;
};

/// Rank 0 inherits the socket, so no other program can take the port between the choice and its
/// use, and early connections wait for rank 0.
LoopbackListener listen_for_rank_0() try {
  return LoopbackListener(/*port=*/0);
} catch (const std::system_error& error) {
  throw ResourceError(
      fmt::format("cannot listen on a port of this machine: {}", error.code().message()));
}

bool is_launch_variable(const std::string& entry) {
  for (const char* name : {"RANK=",
                           "WORLD_SIZE=",
                           "LOCAL_RANK=",
                           "LOCAL_WORLD_SIZE=",
                           "MASTER_ADDR=",
                           "MASTER_PORT=",
                           "TRIL_LISTEN_FD=",
                           "TORCHELASTIC_"}) {
    if (entry.starts_with(name)) return true;
  }
  return false;
}

std::vector<std::string> environment_of(int64_t rank,
                                        int64_t size,
                                        const LoopbackListener& listener) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_launch_variable(*entry)) result.emplace_back(*entry);
  }
  result.push_back(fmt::format("RANK={}", rank));
  result.push_back(fmt::format("WORLD_SIZE={}", size));
  result.push_back(fmt::format("LOCAL_RANK={}", rank));
  result.push_back(fmt::format("LOCAL_WORLD_SIZE={}", size));
  result.emplace_back("MASTER_ADDR=127.0.0.1");
  result.push_back(fmt::format("MASTER_PORT={}", listener.port()));
  if (rank == 0) result.push_back(fmt::format("TRIL_LISTEN_FD={}", listener.fd()));
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

pid_t start_process(const LaunchOptions& options, int64_t rank, const LoopbackListener& listener) {
  std::vector<std::string> command = options.arguments;
  command.insert(command.begin(), options.program);
  auto environment = environment_of(rank, options.n_processes, listener);
  const auto arguments = pointers_to(command);
  const auto variables = pointers_to(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    throw ResourceError(fmt::format("cannot start process {}: {}", rank, std::strerror(errno)));
  }
  if (pid > 0) return pid;
  // Only system calls from here on. A group of its own: Ctrl-C reaches the launcher alone, which
  // passes it on once; twice would end a process without a save.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(PeerError::kExitCode);
  if (rank == 0) ::fcntl(listener.fd(), F_SETFD, 0);
  ::execve(options.program.c_str(), arguments.data(), variables.data());
  ::_exit(127);
}

void send_to_all(const std::vector<Child>& children, int signal) {
  for (const Child& child : children) {
    if (!child.exit_code && child.pid > 0) ::kill(child.pid, signal);
  }
}

/// Takes note of a child that has ended; false: it still runs.
bool reap(Child& child, size_t rank) {
  int status = 0;
  const pid_t pid = ::waitpid(child.pid, &status, WNOHANG);
  if (pid == 0 || (pid < 0 && errno == EINTR)) return false;
  child.killed = pid == child.pid && WIFSIGNALED(status);
  child.exit_code = pid != child.pid ? 1
                    : child.killed   ? kSignalExit + WTERMSIG(status)
                                     : WEXITSTATUS(status);
  if (child.killed) {
    spdlog::error("process {} (pid {}) was ended by signal {}", rank, child.pid, WTERMSIG(status));
  }
  return true;
}

int exit_code_of(const std::vector<Child>& children) {
  bool lost_peer = false;
  int stopped = 0;
  for (const Child& child : children) {
    const int code = *child.exit_code;
    if (code == 0) continue;
    if (child.killed || code == PeerError::kExitCode) {
      lost_peer = true;
    } else if (code >= kSignalExit) {
      stopped = code;
    } else {
      return code;
    }
  }
  return lost_peer ? PeerError::kExitCode : stopped;
}

}  // namespace

int launch(const LaunchOptions& options) {
  std::vector<Child> children(static_cast<size_t>(options.n_processes));
  {
    const LoopbackListener listener = listen_for_rank_0();
    for (size_t rank = 0; rank < children.size(); ++rank) {
      try {
        children[rank].pid = start_process(options, static_cast<int64_t>(rank), listener);
      } catch (...) {
        children.resize(rank);
        send_to_all(children, SIGKILL);
        for (Child& child : children) ::waitpid(child.pid, nullptr, 0);
        throw;
      }
    }
  }
  size_t n_running = children.size();
  bool passed_on = false;
  std::optional<LaunchClock::time_point> first_failure;
  while (n_running > 0) {
    for (size_t rank = 0; rank < children.size(); ++rank) {
      Child& child = children[rank];
      if (child.exit_code || !reap(child, rank)) continue;
      --n_running;
      const bool failed = child.killed || (*child.exit_code > 0 && *child.exit_code < kSignalExit);
      if (failed && !first_failure) first_failure = LaunchClock::now();
    }
    if (const int signal = options.stop_signal(); signal != 0 && !passed_on) {
      send_to_all(children, signal);
      passed_on = true;
    }
    if (first_failure &&
        std::chrono::duration<double>(LaunchClock::now() - *first_failure).count() >
            kGraceSeconds) {
      send_to_all(children, SIGKILL);
    }
    if (n_running > 0) std::this_thread::sleep_for(kPollPause);
  }
  return exit_code_of(children);
}

}  // namespace tril
