#pragma once
// The token file: a self-describing header, then token ids. Little-endian, memory-mapped, all
// counts 64-bit.
//
//   offset  size  field
//        0     8  magic "TRILTOK\n"
//        8     4  version (1)
//       12     4  bytes per id: 2 (vocabulary <= 65 536) or 4
//       16     8  count of ids
//       24     8  vocabulary size
//       32     8  bytes of the text the ids stand for (0: unknown)
//       40    32  tokenizer fingerprint, 32 hex digits
//       72   952  zeros
//     1024        ids

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "tril/base/file.h"

namespace tril {

inline constexpr size_t kTokenFileHeaderBytes = 1024;

struct TokenFileHeader {
  int64_t count = 0;                  ///< ids in the file
  int64_t vocab_size = 0;             ///< ids are in [0, vocab_size)
  int64_t text_bytes = 0;             ///< bytes of text behind the ids; 0: unknown
  std::string tokenizer_fingerprint;  ///< 32 hex digits
  int id_bytes = 2;                   ///< 2 or 4
};

/// Bytes per id for a vocabulary: 2 up to 65 536 (the highest id is 65 535), else 4.
constexpr int id_bytes_for(int64_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}

/// Checks the bytes of a whole file; `path` is for messages only. Throws as TokenFile::open.
TokenFileHeader parse_token_file(std::span<const std::byte> file,
                                 const std::filesystem::path& path);

/// An open token file. Copies share one map.
class TokenFile {
 public:
  /// Opens and checks magic, version, width and size. Throws DataError: file, found, expected.
  static TokenFile open(const std::filesystem::path& path);

  const TokenFileHeader& header() const { return header_; }
  const std::filesystem::path& path() const;
  int64_t size() const { return header_.count; }

  /// Copies ids [start, start + out.size()) as 64-bit; the range must lie inside (assert).
  void read(int64_t start, std::span<int64_t> out) const;
  int64_t at(int64_t i) const;

 private:
  std::shared_ptr<const MappedFile> map_;
  TokenFileHeader header_;
};

/// Writes a token file in one pass; the count goes into the header at the end.
class TokenFileWriter {
 public:
  /// Writes beside `path` under a temporary name until finish().
  TokenFileWriter(const std::filesystem::path& path,
                  int64_t vocab_size,
                  std::string tokenizer_fingerprint);
  ~TokenFileWriter();
  /// Throws DataError for an id outside [0, vocab_size).
  void append(std::span<const int32_t> ids);
  void add_text_bytes(int64_t n_bytes) { header_.text_bytes += n_bytes; }
  int64_t count() const { return header_.count; }
  /// Writes the header, fsyncs, renames to the final name.
  void finish();

 private:
  TokenFileHeader header_;
  std::filesystem::path final_path_;
  std::unique_ptr<FileWriter> file_;
};

}  // namespace tril
