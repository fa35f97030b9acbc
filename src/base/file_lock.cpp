#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"

namespace tril {

namespace fs = std::filesystem;
using posix::errno_text;
using posix::Fd;
using posix::open_retrying;
using posix::throw_open_for_writing_error;
using posix::write_all;

namespace {

std::string this_process() {
  std::array<char, 256> host{};
  const bool known = ::gethostname(host.data(), host.size() - 1) == 0;
  return fmt::format("pid {} on host {}", ::getpid(), known ? host.data() : "unknown");
}

std::string read_owner(int fd) {
  std::array<char, 320> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string owner(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  owner = owner.substr(0, owner.find('\n'));
  return owner.empty() ? "another process" : escape_for_message(owner, text.size());
}

enum class LockResult { kTaken, kHeldByOther, kFileReplaced };

/// One attempt on an open lock file. kFileReplaced: the file was removed or replaced meanwhile, so
/// a lock on it protects nothing; open the path again.
LockResult lock_once(const Fd& fd, const fs::path& path, int operation) {
  while (::flock(fd.get(), operation) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return LockResult::kHeldByOther;
    throw ResourceError(fmt::format("cannot lock {}: {}", shown(path), errno_text(errno)));
  }
  struct stat held {};
  struct stat named {};
  if (::fstat(fd.get(), &held) != 0 || ::stat(path.c_str(), &named) != 0 ||
      held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
    return LockResult::kFileReplaced;
  }
  // Who holds it is only for messages: failing to say so (a full disk) does not matter.
  const std::string owner = this_process() + "\n";
  if (::ftruncate(fd.get(), 0) == 0) write_all(fd.get(), owner.data(), owner.size(), 0);
  return LockResult::kTaken;
}

Fd open_lock_file(const fs::path& path) {
  // O_NOFOLLOW: the owner's name is written into it, and a stranger's link could lead anywhere.
  Fd fd(open_retrying(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW));
  if (!fd.valid() && errno == ELOOP) {
    throw ConfigError(fmt::format("cannot lock {}: it is a link; remove it", shown(path)));
  }
  if (!fd.valid()) throw_open_for_writing_error(path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw ConfigError(
        fmt::format("cannot lock {}: it is not a regular file; remove it", shown(path)));
  }
  return fd;
}

}  // namespace

std::optional<FileLock> FileLock::try_acquire(const fs::path& path, std::string* owner) {
  while (true) {
    Fd fd = open_lock_file(path);
    switch (lock_once(fd, path, LOCK_EX | LOCK_NB)) {
      case LockResult::kTaken:
        return FileLock(fd.release());
      case LockResult::kHeldByOther:
        if (owner != nullptr) *owner = read_owner(fd.get());
        return std::nullopt;
      case LockResult::kFileReplaced:
        break;
    }
  }
}

FileLock FileLock::acquire(const fs::path& path,
                           const std::function<void(const std::string& owner)>& on_wait) {
  std::string owner;
  if (std::optional<FileLock> lock = try_acquire(path, &owner)) return std::move(*lock);
  if (on_wait) on_wait(owner);
  while (true) {
    Fd fd = open_lock_file(path);
    if (lock_once(fd, path, LOCK_EX) == LockResult::kTaken) return FileLock(fd.release());
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace tril
