#include "tril/base/fingerprint.h"

#include <fmt/format.h>

#include <vector>

#define XXH_INLINE_ALL  // header-only: no library to link
#include <xxhash.h>

#include "posix_file.h"

namespace tril {

namespace {

/// Canonical form: big-endian, so equal on every machine and equal to `xxh128sum`.
std::string to_hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string fingerprint(std::string_view bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string fingerprint(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string fingerprint_file(const std::filesystem::path& path, FileRole role) {
  const posix::OpenFile file = posix::open_regular_file(path, role);
  FingerprintStream stream;
  std::vector<char> piece(size_t{1} << 20);
  while (const size_t n = posix::read_some(file.fd, piece.data(), piece.size(), path, role)) {
    stream.update(piece.data(), n);
  }
  return stream.hex();
}

struct FingerprintStream::State {
  XXH3_state_t xxh;
};

FingerprintStream::FingerprintStream() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}

FingerprintStream::~FingerprintStream() = default;

void FingerprintStream::update(const void* data, size_t n_bytes) {
  if (n_bytes > 0) XXH3_128bits_update(&state_->xxh, data, n_bytes);
}

std::string FingerprintStream::hex() const {
  return to_hex(XXH3_128bits_digest(&state_->xxh));
}

}  // namespace tril
