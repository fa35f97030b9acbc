// Writing: buffered, durable, and under the final name only when complete.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {

namespace fs = std::filesystem;
using posix::errno_text;
using posix::Fd;
using posix::fsync_retrying;
using posix::open_retrying;
using posix::throw_open_for_writing_error;
using posix::write_all;

namespace {

constexpr size_t kWriteBufferBytes = size_t{1} << 20;
constexpr std::string_view kTemporaryMark = ".tmp-";

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

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

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
                                  posix::kind_of_file(info.st_mode)));
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

void drop_from_page_cache(const fs::path& path) {
  const Fd fd(open_retrying(path, O_RDONLY));
  if (fd.valid()) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);  // a hint: it cannot fail
}

void overwrite_in_file(const fs::path& path, uint64_t offset, const void* data, size_t n_bytes) {
  const Fd fd(open_retrying(path, O_WRONLY));
  int error = fd.valid() ? 0 : errno;
  if (error == 0) {
    error =
        write_all(fd.get(), static_cast<const char*>(data), n_bytes, static_cast<int64_t>(offset));
  }
  if (error == 0) error = fsync_retrying(fd.get());
  if (error != 0) throw_write_error(path, error);
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

}  // namespace tril
