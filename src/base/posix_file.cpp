#include "posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril::posix {

namespace fs = std::filesystem;

std::string errno_text(int error) {
  return std::generic_category().message(error);
}

std::string_view kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe (fifo)";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return "a special file";
}

int open_retrying(const fs::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

[[noreturn]] void throw_open_for_writing_error(const fs::path& path, int error) {
  const std::string message = fmt::format("cannot write {}: ", shown(path));
  switch (error) {
    case ENOENT:
      throw ConfigError(message + "its folder does not exist; create it or choose another place");
    case ENOTDIR:
      throw ConfigError(message + "a part of the path is a file, expected a folder");
    case EISDIR:
      throw ConfigError(message + "it is a folder, expected a file");
    case EACCES:
    case EPERM:
      throw ConfigError(message + "permission denied; choose a place you may write to");
    case EROFS:
      throw ConfigError(message + "the file system is read-only; choose another place");
    case ENXIO:
      throw ConfigError(message + "it is a pipe or device, expected a regular file");
    case ENAMETOOLONG:
    case ELOOP:
      throw ConfigError(message + errno_text(error));
    default:
      throw ResourceError(message + errno_text(error));
  }
}

int write_all(int fd, const char* data, size_t n_bytes, int64_t offset) {
  while (n_bytes > 0) {
    const ssize_t n = offset < 0 ? ::write(fd, data, n_bytes) : ::pwrite(fd, data, n_bytes, offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (n == 0) return ENOSPC;  // POSIX allows it for a full device; never loop for ever
    data += n;
    n_bytes -= static_cast<size_t>(n);
    if (offset >= 0) offset += n;
  }
  return 0;
}

int fsync_retrying(int fd) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    return errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  }
  return 0;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() {
  return std::exchange(fd_, -1);
}

OpenFile open_regular_file(const fs::path& path, FileRole role) {
  const std::string where = fmt::format("cannot read {}: ", shown(path));
  // Without O_NONBLOCK, opening a fifo waits for a writer that may never come.
  Fd fd(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (!fd.valid()) {
    const int error = errno;
    if (error == ENOENT) throw_file_error(role, where + "no such file; check the path");
    if (error == EACCES) throw_file_error(role, where + "permission denied");
    if (error == ENXIO) {
      throw_file_error(role, where + "it is a socket or device, expected a regular file");
    }
    throw_file_error(role, where + errno_text(error));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_file_error(role, where + errno_text(errno));
  if (!S_ISREG(info.st_mode)) {
    throw_file_error(
        role,
        fmt::format("{}it is {}, expected a regular file", where, kind_of_file(info.st_mode)));
  }
  return {std::move(fd), static_cast<uint64_t>(info.st_size)};
}

size_t read_some(const Fd& fd, void* out, size_t n_bytes, const fs::path& path, FileRole role) {
  while (true) {
    const ssize_t n = ::read(fd.get(), out, n_bytes);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) {
      throw_file_error(role, fmt::format("cannot read {}: {}", shown(path), errno_text(errno)));
    }
  }
}

}  // namespace tril::posix
