#include "tril/base/file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {

namespace fs = std::filesystem;
using posix::errno_text;

void throw_file_error(FileRole role, const std::string& message) {
  switch (role) {
    case FileRole::kConfig:
      throw ConfigError(message);
    case FileRole::kData:
      throw DataError(message);
    case FileRole::kCheckpoint:
      throw CheckpointError(message);
  }
  throw std::logic_error("unknown FileRole");
}

std::string shown(const fs::path& path) {
  return path.empty() ? "\"\" (an empty path)" : escape_for_message(path.string(), 4096);
}

std::string read_file(const fs::path& path, FileRole role, uint64_t max_bytes) {
  const posix::OpenFile file = posix::open_regular_file(path, role);
  const auto refuse_size = [&](const std::string& found) {
    throw_file_error(
        role,
        fmt::format(
            "{} is too large: {}, expected at most {} bytes", shown(path), found, max_bytes));
  };
  if (file.size > max_bytes) refuse_size(fmt::format("{} bytes", file.size));
  // The size is a hint only: the file may grow meanwhile, and files of /proc say 0.
  std::string bytes;
  size_t n_read = 0;
  while (true) {
    if (n_read == bytes.size()) {
      bytes.resize(n_read == 0 ? static_cast<size_t>(file.size) + 1 : n_read + n_read / 2 + 4096);
    }
    const size_t n =
        posix::read_some(file.fd, bytes.data() + n_read, bytes.size() - n_read, path, role);
    if (n == 0) break;
    n_read += n;
    if (n_read > max_bytes) refuse_size("it grew while being read");
  }
  bytes.resize(n_read);
  return bytes;
}

MappedFile::MappedFile(const fs::path& path, FileRole role) : path_(path) {
  const posix::OpenFile file = posix::open_regular_file(path, role);
  size_ = static_cast<size_t>(file.size);
  if (size_ == 0) return;  // mmap refuses length 0
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd.get(), 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    const std::string message =
        fmt::format("cannot map {} ({} bytes): {}", shown(path), size_, errno_text(error));
    if (error == ENOMEM) throw ResourceError(message);
    throw_file_error(role, message);
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  // munmap takes a non-const pointer, though it does not write.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

void MappedFile::prefetch(size_t offset, size_t n_bytes) const {
  if (offset >= size_) return;
  static const auto kPageBytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  n_bytes = std::min(n_bytes, size_ - offset);
  const size_t begin = offset / kPageBytes * kPageBytes;
  ::madvise(const_cast<std::byte*>(data_) + begin, offset - begin + n_bytes, MADV_WILLNEED);
}

}  // namespace tril
