#pragma once
// A TCP socket that listens on this machine only.

#include <cstdint>

namespace tril {

class LoopbackListener {
 public:
  /// On 127.0.0.1; port 0 takes a free one. Not inherited by programs that are started. Throws
  /// std::system_error.
  explicit LoopbackListener(uint16_t port);
  ~LoopbackListener();
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
};

}  // namespace tril
