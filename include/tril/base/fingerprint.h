#pragma once
// Fingerprints: 128-bit XXH3 as 32 hex digits. They find accidents, not forgeries.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tril/base/file.h"

namespace tril {

/// 32 lower-case hex digits of XXH3-128 (canonical byte order).
std::string fingerprint(std::string_view bytes);
std::string fingerprint(std::span<const std::byte> bytes);

/// The fingerprint of a file's content, read in pieces.
std::string fingerprint_file(const std::filesystem::path& path, FileRole role);

/// The same over bytes that arrive in pieces.
class FingerprintStream {
 public:
  FingerprintStream();
  ~FingerprintStream();
  void update(const void* data, size_t n_bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril
