#pragma once
// A file or stdin, read in blocks: memory does not grow with the input.

#include <cstdint>
#include <cstdio>
#include <string>

namespace tril::cli {

class InputStream {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  /// `name`: a path, or "-" for stdin. Throws DataError naming it when it cannot be opened or is a
  /// folder.
  explicit InputStream(const std::string& name);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// Appends the next block to `out`; false at the end. Throws DataError when reading fails.
  bool read(std::string& out);
  /// Bytes read so far, and of the whole (0 for what has no size).
  int64_t offset() const { return offset_; }
  int64_t size() const { return size_; }
  /// The name for messages.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::FILE* file_ = nullptr;
  int64_t offset_ = 0;
  int64_t size_ = 0;
};

}  // namespace tril::cli
