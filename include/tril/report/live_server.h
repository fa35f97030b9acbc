#pragma once
// A small HTTP/1.1 server for one reader on this machine: it listens on 127.0.0.1 only.

#include <cstdint>
#include <functional>
#include <string>

#include "tril/base/loopback_listener.h"

namespace tril {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
};

class LiveServer {
 public:
  /// Listens on 127.0.0.1; port 0 takes a free one. ConfigError when the port is taken.
  explicit LiveServer(uint16_t port);

  uint16_t port() const { return listener_.port(); }

  /// Answers GET and HEAD requests by their path until `should_stop` says so (asked five times a
  /// second). A request under another name than 127.0.0.1 or localhost is refused, so that no page
  /// from elsewhere can read along; requests of more than 8 KiB or 5 seconds are dropped.
  void run(const std::function<HttpAnswer(const std::string& path)>& answer,
           const std::function<bool()>& should_stop);

 private:
  LoopbackListener listener_;
};

/// The whole answer to one request's head, as bytes. `port`: the server's own.
std::string http_response(const std::string& request,
                          uint16_t port,
                          const std::function<HttpAnswer(const std::string& path)>& answer);

}  // namespace tril
