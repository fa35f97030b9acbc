#pragma once
// The bytes of a file, decompressed when its name says so: .gz (zlib) and .zst (libzstd).

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tril {

/// A file read from beginning to end.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Puts up to `max_bytes` (>= 1) into `out`; 0 only at the end. Throws DataError, naming the
  /// file: not readable, not of the kind its name says, damaged, cut short.
  virtual size_t read(char* out, size_t max_bytes) = 0;
  /// Bytes taken from the file itself so far.
  virtual int64_t file_bytes_read() const = 0;
};

/// By the ending of the name. Several compressed streams one after another count as one, as for
/// gzip and zstd themselves. Memory is bounded (a .zst may ask for a window of at most 128 MiB).
/// Throws DataError also when this build of tril lacks the library.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

/// Does the name end in .gz or .zst?
bool is_compressed_name(const std::filesystem::path& path);

/// The extension without .gz or .zst: ".jsonl" for "a.jsonl.zst".
std::string extension_inside(const std::filesystem::path& path);

}  // namespace tril
