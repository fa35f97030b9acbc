#pragma once
// SIGINT, SIGTERM and SIGHUP: the first asks to stop, the second ends the process at once.

namespace tril {

/// Installs the handlers; call once, early in main. Also ignores SIGPIPE and SIGXFSZ, so that a
/// closed pipe and a full file are errors of the write and not the end of the process; and turns
/// SIGBUS (a mapped file that was cut while in use) into a message and exit code 3.
void install_stop_handlers();

/// 0, or the signal that asked to stop. Cheap enough to poll anywhere.
int stop_signal();

}  // namespace tril
