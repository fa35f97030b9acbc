#include "tril/train/stop_signal.h"

#include <unistd.h>

#include <csignal>

namespace tril {
namespace {

constexpr int kBusErrorExit = 3;  // data

volatile std::sig_atomic_t g_stop_signal = 0;

void on_signal(int signal) {
  if (g_stop_signal != 0) _exit(128 + signal);  // saves are atomic: nothing can be half done
  g_stop_signal = signal;
}

/// A mapped file that was cut while in use: reading beyond its new end is SIGBUS. There is nothing
/// to go back to, but the user can be told; checkpoints are never half written.
void on_bus_error(int) {
  constexpr char kMessage[] =
      "\nerror: a file that was open (token file, weights) became shorter or its disk failed while "
      "it was being read. Restore it and go on with --resume\n";
  const ssize_t n = write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  static_cast<void>(n);
  _exit(kBusErrorExit);
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A terminal that goes away asks to stop too, unless nohup has said that it shall not.
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
  action.sa_handler = on_bus_error;
  sigaction(SIGBUS, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int stop_signal() {
  return g_stop_signal;
}

}  // namespace tril
