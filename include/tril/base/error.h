#pragma once
// The errors a user can meet. One type per cause; each cause is one exit code of the command line.
// A message is one readable text: what was expected, what was found, where, and what to try.

#include <stdexcept>
#include <string>

namespace tril {

/// Base of every error tril throws on purpose. Anything else that escapes is a bug of ours (exit
/// 1).
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string& message)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

/// Usage or configuration; an existing run folder; a device that is not there.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(2, message) {}
};

/// Data or tokenizer: missing or short file, id outside the vocabulary, foreign fingerprint.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(3, message) {}
};

/// Checkpoint or weights that cannot be used; a failed verification.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(4, message) {}
};

/// Training diverged: non-finite loss or gradient.
class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& message) : Error(5, message) {}
};

/// Out of memory or disk.
class ResourceError : public Error {
 public:
  explicit ResourceError(const std::string& message) : Error(6, message) {}
};

/// A peer process failed or timed out.
class PeerError : public Error {
 public:
  static constexpr int kExitCode = 7;
  explicit PeerError(const std::string& message) : Error(kExitCode, message) {}
};

}  // namespace tril
