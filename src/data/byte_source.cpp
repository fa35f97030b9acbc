#include "tril/data/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"

#if TRIL_HAS_ZLIB
#include <zlib.h>
#endif
#if TRIL_HAS_ZSTD
#include <zstd.h>
#endif

namespace tril {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void throw_damaged(const fs::path& path, const char* kind, const std::string& why) {
  throw DataError(fmt::format("'{}' cannot be read as a {} file: {}", shown(path), kind, why));
}

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(fs::path path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw_cannot_read("open");
  }
  ~PlainSource() override {
    if (fd_ >= 0) ::close(fd_);
  }
  PlainSource(const PlainSource&) = delete;
  PlainSource& operator=(const PlainSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    ssize_t n_bytes = 0;
    do {
      n_bytes = ::read(fd_, out, max_bytes);
    } while (n_bytes < 0 && errno == EINTR);
    if (n_bytes < 0) throw_cannot_read("read");
    n_bytes_read_ += n_bytes;
    return static_cast<size_t>(n_bytes);
  }
  int64_t file_bytes_read() const override { return n_bytes_read_; }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void throw_cannot_read(const char* what) const {
    throw DataError(
        fmt::format("cannot {} the text file '{}': {}", what, shown(path_), std::strerror(errno)));
  }

  fs::path path_;
  int fd_ = -1;
  int64_t n_bytes_read_ = 0;
};

/// The compressed bytes, in pieces.
class InputPieces {
 public:
  explicit InputPieces(const fs::path& path) : file_(path), buffer_(size_t{1} << 17, '\0') {}
  /// The next piece; empty at the end of the file.
  std::string_view next() { return {buffer_.data(), file_.read(buffer_.data(), buffer_.size())}; }
  const PlainSource& file() const { return file_; }

 private:
  PlainSource file_;
  std::string buffer_;
};

#if TRIL_HAS_ZLIB
class GzipSource : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : input_(path) {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  size_t read(char* out, size_t max_bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(std::min(max_bytes, size_t{1} << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) refill();
      if (stream_.avail_in == 0) {
        if (!in_member_ && any_member_) return 0;
        throw_damaged(input_.file().path(), "gzip", "it ends too early (cut short?)");
      }
      if (!in_member_ && any_member_ && skip_padding()) continue;
      in_member_ = true;
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        in_member_ = false;
        any_member_ = true;
        ::inflateReset(&stream_);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        throw_damaged(
            input_.file().path(), "gzip", stream_.msg != nullptr ? stream_.msg : "it is damaged");
      }
    }
    return wanted - stream_.avail_out;
  }
  int64_t file_bytes_read() const override { return input_.file().file_bytes_read(); }

 private:
  void refill() {
    const std::string_view piece = input_.next();
    // zlib's interface is older than const; it does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
  }
  /// Zeros after the last member (tapes, block devices) mean nothing.
  bool skip_padding() {
    bool any = false;
    for (; stream_.avail_in > 0 && *stream_.next_in == 0; any = true) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
    return any;
  }

  InputPieces input_;
  z_stream stream_{};
  bool in_member_ = false;
  bool any_member_ = false;
};
#endif

#if TRIL_HAS_ZSTD
class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(const fs::path& path)
      : input_(path), stream_(::ZSTD_createDStream(), ::ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
  }

  size_t read(char* out, size_t max_bytes) override {
    ZSTD_outBuffer to{out, max_bytes, 0};
    while (to.pos == 0) {
      // What the decoder still holds comes first: it may need no further input.
      if (from_.pos == from_.size && !may_hold_output_) {
        const std::string_view piece = input_.next();
        from_ = {piece.data(), piece.size(), 0};
        if (piece.empty()) {
          if (at_frame_end_ && any_frame_) return 0;
          throw_damaged(input_.file().path(), "zstd", "it ends too early (cut short?)");
        }
      }
      const size_t status = ::ZSTD_decompressStream(stream_.get(), &to, &from_);
      if (::ZSTD_isError(status) != 0U) {
        throw_damaged(input_.file().path(), "zstd", ::ZSTD_getErrorName(status));
      }
      any_frame_ = true;
      at_frame_end_ = status == 0;
      may_hold_output_ = to.pos == to.size && !at_frame_end_;
    }
    return to.pos;
  }
  int64_t file_bytes_read() const override { return input_.file().file_bytes_read(); }

 private:
  InputPieces input_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool may_hold_output_ = false;
  bool at_frame_end_ = false;
  bool any_frame_ = false;
};
#endif

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".gz") {
#if TRIL_HAS_ZLIB
    return std::make_unique<GzipSource>(path);
#else
    throw DataError(
        fmt::format("'{}' is compressed, and this tril was built without zlib: "
                    "decompress it with gunzip, or install zlib1g-dev and build anew",
                    shown(path)));
#endif
  }
  if (ending == ".zst") {
#if TRIL_HAS_ZSTD
    return std::make_unique<ZstdSource>(path);
#else
    throw DataError(
        fmt::format("'{}' is compressed, and this tril was built without libzstd: "
                    "decompress it with unzstd, or install libzstd-dev and build anew",
                    shown(path)));
#endif
  }
  return std::make_unique<PlainSource>(path);
}

bool is_compressed_name(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".gz" || ending == ".zst";
}

std::string extension_inside(const fs::path& path) {
  return (is_compressed_name(path) ? path.stem() : path).extension().string();
}

}  // namespace tril
