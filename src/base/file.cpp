#include "tril/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {

namespace fs = std::filesystem;
using posix::Fd;
using posix::shown;

namespace {

constexpr size_t kWriteBufferBytes = size_t{1} << 20;
constexpr std::string_view kTemporaryMark = ".tmp-";

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

/// Opens again when a signal interrupts (open can wait on network file systems).
int open_retrying(const fs::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

/// A path that cannot be written is the user's choice of place (ConfigError); a full or failing
/// disk is not (ResourceError).
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

[[noreturn]] void throw_write_error(const fs::path& path, int error) {
  const std::string where = fmt::format("cannot write {}: ", shown(path));
  switch (error) {
    case ENOSPC:
      throw ResourceError(where + "no space left on the device; free some and try again");
    case EDQUOT:
      throw ResourceError(where + "the disk quota is used up; free some space and try again");
    case EFBIG:
      throw ResourceError(where + "the file-size limit is reached (see `ulimit -f`)");
    default:
      throw ResourceError(where + errno_text(error));
  }
}

/// Writes all bytes at the file position (offset < 0) or at an offset; 0 or the errno.
int write_all(int fd, const char* data, size_t n_bytes, int64_t offset = -1) {
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

/// 0 or the errno. File systems without fsync (EINVAL, ENOTSUP) count as done.
int fsync_retrying(int fd) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    return errno == EINVAL || errno == ENOTSUP ? 0 : errno;
  }
  return 0;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

namespace posix {

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

std::string shown(const fs::path& path) {
  return path.empty() ? "\"\" (an empty path)" : escape_for_message(path.string(), 4096);
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

}  // namespace posix

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

FileWriter::FileWriter(const fs::path& path) : path_(path) {
  // O_NONBLOCK: a fifo without a reader is refused instead of waited for. Truncation comes after
  // the check, so that a refused file keeps its content.
  Fd fd(open_retrying(path, O_WRONLY | O_CREAT | O_NONBLOCK));
  if (!fd.valid()) throw_open_for_writing_error(path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_write_error(path, errno);
  if (!S_ISREG(info.st_mode)) {  // and must never be removed by the destructor
    throw ConfigError(fmt::format("cannot write {}: it is {}, expected a regular file",
                                  shown(path),
                                  kind_of_file(info.st_mode)));
  }
  if (info.st_size > 0 && ::ftruncate(fd.get(), 0) != 0) throw_write_error(path, errno);
  fd_ = fd.release();
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void FileWriter::write(const void* data, size_t n_bytes) {
  assert(fd_ >= 0);
  const char* bytes = static_cast<const char*>(data);
  bytes_written_ += n_bytes;
  if (buffer_.size() + n_bytes < kWriteBufferBytes) {
    buffer_.append(bytes, n_bytes);
    return;
  }
  int error = write_all(fd_, buffer_.data(), buffer_.size());
  buffer_.clear();
  if (error == 0 && n_bytes >= kWriteBufferBytes) {
    error = write_all(fd_, bytes, n_bytes);
  } else {
    buffer_.append(bytes, n_bytes);
  }
  if (error != 0) throw_write_error(path_, error);
}

void FileWriter::write_at(uint64_t offset, const void* data, size_t n_bytes) {
  assert(fd_ >= 0 && offset + n_bytes <= bytes_written_);
  int error = write_all(fd_, buffer_.data(), buffer_.size());
  buffer_.clear();
  if (error == 0) {
    error = write_all(fd_, static_cast<const char*>(data), n_bytes, static_cast<int64_t>(offset));
  }
  if (error != 0) throw_write_error(path_, error);
}

void FileWriter::finish() {
  assert(fd_ >= 0);
  int error = write_all(fd_, buffer_.data(), buffer_.size());
  buffer_.clear();
  if (error == 0) error = fsync_retrying(fd_);
  if (error != 0) throw_write_error(path_, error);  // the destructor removes the file
  // Linux closes the descriptor even when close is interrupted: never again.
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    error = errno;
    ::unlink(path_.c_str());
    throw_write_error(path_, error);
  }
}

void FileWriter::finish_as(const fs::path& final_path) {
  finish();
  if (::rename(path_.c_str(), final_path.c_str()) != 0) {
    const int error = errno;
    ::unlink(path_.c_str());
    if (error == EISDIR || error == EACCES || error == EPERM) {
      throw_open_for_writing_error(final_path, error);
    }
    throw_write_error(final_path, error);
  }
  fsync_folder(folder_of(final_path));
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  FileWriter file(temporary_sibling(path));
  file.write(bytes);
  file.finish_as(path);
}

void fsync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  const Fd fd(open_retrying(path, O_RDONLY | O_DIRECTORY));
  const int error = fd.valid() ? fsync_retrying(fd.get()) : errno;
  if (error != 0) {
    throw ResourceError(
        fmt::format("cannot make the folder {} durable: {}", shown(path), errno_text(error)));
  }
}

fs::path temporary_sibling(const fs::path& path) {
  // The counter begins at random: containers that share a volume often share process ids too.
  static std::atomic<uint64_t> counter{std::random_device{}()};
  const fs::path named = path.has_filename() ? path : path.parent_path();
  // Names end at 255 bytes; a cut name is still unique by its counter.
  const std::string name = named.filename().string().substr(0, 200);
  const uint64_t number = counter.fetch_add(1);
  return named.parent_path() / fmt::format(".{}{}{}-{}", name, kTemporaryMark, ::getpid(), number);
}

bool is_temporary_name(const fs::path& path) {
  const std::string name = path.filename().string();
  const size_t mark = name.rfind(kTemporaryMark);
  if (name.empty() || name[0] != '.' || mark == std::string::npos || mark == 0) return false;
  const std::string_view tail = std::string_view(name).substr(mark + kTemporaryMark.size());
  const size_t dash = tail.find('-');
  if (dash == std::string_view::npos || dash == 0 || dash + 1 == tail.size()) return false;
  return tail.find_first_not_of("0123456789", dash + 1) == std::string_view::npos &&
         tail.find_first_not_of("0123456789") == dash;
}

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
  Fd fd(open_retrying(path, O_RDWR | O_CREAT | O_NONBLOCK));
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

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// True when the folder is there (made now if need be) and we can write into it.
bool make_writable_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

fs::path cache_folder() {
  if (const std::string chosen = environment("TRIL_CACHE"); !chosen.empty()) {
    // An explicit choice is never replaced by another place.
    if (make_writable_folder(chosen)) return fs::absolute(chosen);
    throw ConfigError(
        fmt::format("TRIL_CACHE={}: cannot create or write this folder", shown(chosen)));
  }
  // The XDG rule: a relative XDG_CACHE_HOME is ignored.
  if (const fs::path xdg = environment("XDG_CACHE_HOME");
      xdg.is_absolute() && make_writable_folder(xdg / "tril")) {
    return xdg / "tril";
  }
  if (const fs::path home = environment("HOME");
      home.is_absolute() && make_writable_folder(home / ".cache" / "tril")) {
    return home / ".cache" / "tril";
  }
  std::error_code error;
  const fs::path shared = fs::temp_directory_path(error);
  const fs::path folder =
      (error ? fs::path(P_tmpdir) : shared) / fmt::format("tril-cache-{}", ::getuid());
  // Anyone can make this name first: take it only when it is ours and no link.
  ::mkdir(folder.c_str(), 0700);
  struct stat info {};
  if (::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid() &&
      make_writable_folder(folder)) {
    return folder;
  }
  throw ConfigError(fmt::format(
      "no folder for the cache: {} cannot be used; set TRIL_CACHE to a folder you can write to",
      shown(folder)));
}

}  // namespace tril
