#include "input_stream.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tril/base/error.h"

namespace tril::cli {

InputStream::InputStream(const std::string& name) : name_(name == "-" ? "stdin" : name) {
  file_ = name == "-" ? stdin : std::fopen(name.c_str(), "rb");
  if (file_ == nullptr) {
    throw DataError(fmt::format("cannot read '{}': {}", name_, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fileno(file_), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      if (file_ != stdin) std::fclose(file_);
      throw DataError(fmt::format("'{}' is a folder: expected a file", name_));
    }
    if (S_ISREG(info.st_mode)) size_ = info.st_size;
  }
}

InputStream::~InputStream() {
  if (file_ != stdin) std::fclose(file_);
}

bool InputStream::read(std::string& out) {
  const size_t begin = out.size();
  out.resize(begin + kBlockBytes);
  const size_t n_bytes = std::fread(out.data() + begin, 1, kBlockBytes, file_);
  out.resize(begin + n_bytes);
  offset_ += static_cast<int64_t>(n_bytes);
  if (n_bytes == 0 && std::ferror(file_) != 0) {
    throw DataError(fmt::format("cannot read '{}': {}", name_, std::strerror(errno)));
  }
  return n_bytes > 0;
}

}  // namespace tril::cli
