#include "tril/train/stop_signal.h"

#include <unistd.h>

#include <csignal>

namespace tril {
namespace {

volatile std::sig_atomic_t g_stop_signal = 0;

void on_signal(int signal) {
  if (g_stop_signal != 0) _exit(128 + signal);  // saves are atomic: nothing can be half done
  g_stop_signal = signal;
}

}  // namespace

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

int stop_signal() {
  return g_stop_signal;
}

}  // namespace tril
