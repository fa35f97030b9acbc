#pragma once
// What the files of src/base share and nobody else needs: descriptors that close themselves.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tril/base/file.h"

namespace tril::posix {

/// Owns a file descriptor.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd();
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_;
};

/// A regular file open for reading, and its size when it was opened.
struct OpenFile {
  Fd fd;
  uint64_t size = 0;
};

/// Opens a regular file. A missing file, folder, fifo, device or unreadable file is the role's
/// error; none of them blocks.
OpenFile open_regular_file(const std::filesystem::path& path, FileRole role);

/// Reads up to n_bytes; 0 at the end of the file. An I/O failure is the role's error.
size_t read_some(
    const Fd& fd, void* out, size_t n_bytes, const std::filesystem::path& path, FileRole role);

/// The system's text for an errno.
std::string errno_text(int error);

/// "a folder", "a pipe (fifo)": for messages about what is no regular file.
std::string_view kind_of_file(mode_t mode);

/// open(2), again when a signal interrupts it (it can wait on network file systems).
int open_retrying(const std::filesystem::path& path, int flags);

/// A path that cannot be written is the user's choice of place (ConfigError); a full or failing
/// disk is not (ResourceError).
[[noreturn]] void throw_open_for_writing_error(const std::filesystem::path& path, int error);

/// Writes all bytes at the file position (offset < 0) or at an offset; 0 or the errno.
int write_all(int fd, const char* data, size_t n_bytes, int64_t offset = -1);

/// 0 or the errno. File systems without fsync (EINVAL, ENOTSUP) count as done.
int fsync_retrying(int fd);

}  // namespace tril::posix
