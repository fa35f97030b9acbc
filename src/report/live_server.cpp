#include "tril/report/live_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "tril/base/error.h"

namespace tril {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRequestBytes = 8192;
constexpr size_t kMostConnections = 32;
constexpr auto kPatience = std::chrono::seconds(5);
constexpr int kPollMilliseconds = 200;

/// One reader: its request so far, then what is left of its answer.
struct Connection {
  int fd = -1;
  Clock::time_point since = Clock::now();
  std::string request = {};
  std::string response = {};
  size_t sent = 0;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

/// The value of a header; empty when it is not there.
std::string header(const std::string& request, const std::string& name) {
  const std::string key = "\r\n" + name + ":";
  const auto at = lower(request).find(key);
  if (at == std::string::npos) return {};
  const size_t begin = request.find_first_not_of(' ', at + key.size());
  const size_t end = request.find("\r\n", at + key.size());
  return begin < end ? request.substr(begin, end - begin) : std::string();
}

std::string format_answer(const HttpAnswer& answer, bool with_body) {
  const char* reason = answer.status == 200 ? "OK" : "Refused";
  return fmt::format(
             "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: "
             "no-store\r\n"
             "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
             answer.status,
             reason,
             answer.type,
             answer.body.size()) +
         (with_body ? answer.body : std::string());
}

HttpAnswer plain(int status, std::string body) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(body)};
}

}  // namespace

std::string http_response(const std::string& request,
                          uint16_t port,
                          const std::function<HttpAnswer(const std::string& path)>& answer) {
  const size_t first = request.find(' ');
  const size_t second = first == std::string::npos ? first : request.find(' ', first + 1);
  const size_t line_end = request.find("\r\n");
  if (second == std::string::npos || line_end == std::string::npos || second > line_end) {
    return format_answer(plain(400, "not an HTTP request\n"), true);
  }
  const std::string method = request.substr(0, first);
  if (method != "GET" && method != "HEAD") {
    return format_answer(plain(405, "only GET and HEAD\n"), true);
  }
  const std::string host = lower(header(request, "host"));
  if (host != fmt::format("127.0.0.1:{}", port) && host != fmt::format("localhost:{}", port)) {
    return format_answer(plain(403, "ask for 127.0.0.1 or localhost\n"), true);
  }
  std::string path = request.substr(first + 1, second - first - 1);
  path = path.substr(0, path.find('?'));
  try {
    return format_answer(answer(path), method == "GET");
  } catch (const std::exception& error) {
    return format_answer(plain(500, std::string(error.what()) + "\n"), method == "GET");
  }
}

LiveServer::LiveServer(uint16_t port) try : listener_(port) {
} catch (const std::system_error& error) {
  throw ConfigError(fmt::format(
      "port {} of 127.0.0.1 cannot be used: {}. Try another --port, or 0 for a free one",
      port,
      error.code().message()));
}

void LiveServer::run(const std::function<HttpAnswer(const std::string& path)>& answer,
                     const std::function<bool()>& should_stop) {
  std::vector<Connection> connections;
  while (!should_stop()) {
    std::vector<pollfd> waits;
    waits.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
    for (const auto& c : connections) {
      const bool answers = !c.response.empty();
      waits.push_back(
          {.fd = c.fd, .events = static_cast<short>(answers ? POLLOUT : POLLIN), .revents = 0});
    }
    if (poll(waits.data(), waits.size(), kPollMilliseconds) < 0 && errno != EINTR) return;

    for (size_t i = 0; i < connections.size(); ++i) {
      Connection& c = connections[i];
      const auto events = waits[i + 1].revents;
      bool done = Clock::now() - c.since > kPatience;
      if (!done && c.response.empty() && events != 0) {
        char buffer[2048];
        const ssize_t n = recv(c.fd, buffer, sizeof buffer, 0);
        if (n > 0) c.request.append(buffer, static_cast<size_t>(n));
        done = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
               c.request.size() > kMostRequestBytes;
        if (!done && c.request.find("\r\n\r\n") != std::string::npos) {
          c.response = http_response(c.request, port(), answer);
        }
      }
      if (!done && !c.response.empty()) {
        const ssize_t n =
            send(c.fd, c.response.data() + c.sent, c.response.size() - c.sent, MSG_NOSIGNAL);
        if (n > 0) c.sent += static_cast<size_t>(n);
        done = c.sent == c.response.size() || (n < 0 && errno != EAGAIN && errno != EINTR);
      }
      if (!done) continue;
      close(c.fd);
      c.fd = -1;
    }
    std::erase_if(connections, [](const Connection& c) { return c.fd < 0; });

    if ((waits[0].revents & POLLIN) == 0 || connections.size() >= kMostConnections) continue;
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) connections.push_back({.fd = fd});
  }
  for (const auto& c : connections) close(c.fd);
}

}  // namespace tril
