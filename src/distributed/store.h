#pragma once
// c10d's store behind a Rendezvous, and how its errors become ours.

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <string>

#include "tril/base/error.h"
#include "tril/distributed/rendezvous.h"

namespace tril {

struct Rendezvous::Store {
  c10::intrusive_ptr<c10d::Store> c10d;
};

/// What a message of LibTorch or Gloo says, in few words: they hold paths, advice and backtraces.
inline std::string reason_of(const std::exception& error) {
  const std::string text = error.what();
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (has("Connection closed by peer") || has("Connection reset by peer") || has("Broken pipe")) {
    return "a connection was closed at the other end";
  }
  if (has("Connection refused")) return "connection refused";
  if (has("Timed out") || has("timed out") || has("Timeout") || has("timeout")) {
    return "no answer within the time-out";
  }
  return text.substr(0, text.find('\n'));
}

/// Runs what talks to other processes; any failure is a PeerError that says while doing what.
template <typename F>
auto with_peers(const char* doing, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerError(
        fmt::format("a peer process failed or did not answer in time ({}: {}). Checkpoints are as "
                    "they were: start all processes again with --resume=auto",
                    doing,
                    reason_of(error)));
  }
}

}  // namespace tril
