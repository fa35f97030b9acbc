#include "tril/base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "posix_file.h"

namespace tril {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  open();
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::open() {
  // O_NONBLOCK: a fifo in this place must not stop the run. O_NOFOLLOW: nor a link lead elsewhere.
  posix::Fd fd(
      posix::open_retrying(path_, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOFOLLOW));
  struct stat info {};
  if (!fd.valid()) {
    error_ = errno == ELOOP ? "it is a link" : posix::errno_text(errno);
  } else if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    error_ = "it is not a regular file";
  } else {
    error_.clear();
    fd_ = fd.release();
  }
}

bool AppendFile::write(std::string_view bytes) {
  if (fd_ < 0) open();
  if (fd_ < 0) return false;
  struct stat before {};
  const bool size_known = ::fstat(fd_, &before) == 0;
  const int error = posix::write_all(fd_, bytes.data(), bytes.size());
  if (error == 0) {
    error_.clear();
    return true;
  }
  error_ = posix::errno_text(error);
  if (size_known && ::ftruncate(fd_, before.st_size) != 0) error_ += "; its last line is cut";
  return false;
}

}  // namespace tril
