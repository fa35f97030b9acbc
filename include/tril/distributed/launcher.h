#pragma once
// `tril launch`: several processes of one program on this machine, without Python. No Torch here.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tril {

struct LaunchOptions {
  std::string program;                 ///< path of the executable
  std::vector<std::string> arguments;  ///< of each process
  int64_t n_processes = 1;
  std::function<int()> stop_signal;  ///< 0, or the signal that asked the launcher to stop
};

/// Starts the processes with the environment that find_world reads, and waits for them. A signal is
/// passed on to all. When one fails, the others have kGraceSeconds to notice; then they are killed.
/// If the launcher itself dies, each process receives SIGTERM. Returns the exit code of the whole:
/// 0; else the first process's code that names a cause (1 to 6); else 7 when a process was killed
/// or lost its peers; else the code of a stop by signal. Throws ResourceError when a process cannot
/// be started.
int launch(const LaunchOptions& options);

inline constexpr double kGraceSeconds = 15;

}  // namespace tril
