#pragma once
// The token file: a self-describing header, then token ids. Little-endian, memory-mapped, all
// counts 64-bit. Also the reading of two foreign kinds, and of several files as one stream.
//
//   offset  size  field
//        0     8  magic "TRILTOK\n"
//        8     4  version (1)
//       12     4  bytes per id: 2 (vocabulary <= 65 536) or 4
//       16     8  count of ids
//       24     8  vocabulary size
//       32     8  bytes of the text the ids stand for (0: unknown)
//       40    32  tokenizer fingerprint, 32 hex digits
//       72     4  number of this shard, from 0
//       76     4  shards of the set (0: the file is not part of a set)
//       80     8  id that ends a document, plus 1 (0: none)
//       88   936  zeros
//     1024        ids

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tril/base/file.h"

namespace tril {

inline constexpr size_t kTokenFileHeaderBytes = 1024;

struct TokenFileHeader {
  int64_t count = 0;                  ///< ids in the file
  int64_t vocab_size = 0;             ///< ids are in [0, vocab_size)
  int64_t text_bytes = 0;             ///< bytes of text behind the ids; 0: unknown
  std::string tokenizer_fingerprint;  ///< 32 hex digits
  int id_bytes = 2;                   ///< 2 or 4
  int64_t shard = 0;                  ///< number of this file in its set
  int64_t n_shards = 0;               ///< 0: not part of a set
  int64_t end_of_text = -1;           ///< the id that ends a document; -1: none
};

/// Bytes per id for a vocabulary: 2 up to 65 536 (the highest id is 65 535), else 4.
constexpr int id_bytes_for(int64_t vocab_size) {
  return vocab_size <= 65536 ? 2 : 4;
}

/// Checks the bytes of a whole file; `path` is for messages only. Throws as TokenFile::open.
TokenFileHeader parse_token_file(std::span<const std::byte> file,
                                 const std::filesystem::path& path);

/// What a foreign file does not say about its ids, and somebody must.
struct TokenMeaning {
  int64_t vocab_size = 0;
  std::string tokenizer_fingerprint = {};
  int64_t end_of_text = -1;
};

/// An open token file, or several read as one stream. Copies share the maps.
class TokenFile {
 public:
  /// Opens and checks magic, version, width and size. Throws DataError: file, found, expected.
  static TokenFile open(const std::filesystem::path& path);
  /// A shard of llm.c: 256 int32 (magic 20240520 and version 1 for 2-byte ids, 20240801 and 7 for
  /// 4-byte ids; then the count), then ids. Source: llm.c, dev/data/data_common.py. DataError.
  static TokenFile open_llmc(const std::filesystem::path& path, const TokenMeaning& meaning);
  /// Nothing but 2-byte ids, as nanoGPT writes them. DataError for an odd size, for a file that has
  /// a header after all, and for one that looks like 4-byte ids.
  static TokenFile open_uint16(const std::filesystem::path& path, const TokenMeaning& meaning);
  /// The files one after another, as one stream; at least one. DataError when two were made with
  /// different tokenizers, or when shards of one set are missing, doubled or out of order.
  static TokenFile join(const std::vector<TokenFile>& files);

  /// Ids [begin, begin + count) as a stream of their own; they must lie inside (assert). Their
  /// text_bytes is unknown.
  TokenFile slice(int64_t begin, int64_t count) const;

  /// Of all files: counts are sums; shard and n_shards are 0 after join().
  const TokenFileHeader& header() const { return header_; }
  /// Of the first file.
  const std::filesystem::path& path() const;
  int64_t size() const { return header_.count; }

  /// Copies ids [start, start + out.size()) as 64-bit; the range must lie inside (assert).
  void read(int64_t start, std::span<int64_t> out) const;
  int64_t at(int64_t i) const;
  /// Asks the system to have this part of the stream in memory soon; returns at once, costs about a
  /// microsecond when it is there already. The range is cut to the stream.
  void prefetch(int64_t start, int64_t n_ids) const;

  /// "token 17 of 'train_00001.tokens'": names a place of the stream in a message.
  std::string describe_place(int64_t i) const;
  /// The files behind the stream.
  std::vector<std::filesystem::path> paths() const;

 private:
  struct Part {
    std::shared_ptr<const MappedFile> map;
    const std::byte* ids = nullptr;
    int64_t begin = 0;  ///< number of its first id in the stream
    int64_t count = 0;
    int id_bytes = 2;
    size_t header_bytes = 0;  ///< before the file's first id
  };
  static TokenFile of_one(MappedFile map, size_t header_bytes, TokenFileHeader header);
  /// The part that holds id i; i < size().
  const Part& part_of(int64_t i) const;

  std::shared_ptr<const std::vector<Part>> parts_;
  TokenFileHeader header_;
};

/// What the first bytes of a file say about it.
enum class TokenFormat { kUnknown, kTril, kLlmc, kHdf5 };
/// Throws DataError when the file cannot be read.
TokenFormat sniff_token_format(const std::filesystem::path& path);

/// Writes a token file in one pass; the count goes into the header at the end.
class TokenFileWriter {
 public:
  /// Writes beside `path` under a temporary name until finish().
  TokenFileWriter(const std::filesystem::path& path,
                  int64_t vocab_size,
                  std::string tokenizer_fingerprint,
                  int64_t end_of_text = -1);
  ~TokenFileWriter();
  /// Throws DataError for an id outside [0, vocab_size).
  void append(std::span<const int32_t> ids);
  void add_text_bytes(int64_t n_bytes) { header_.text_bytes += n_bytes; }
  int64_t count() const { return header_.count; }
  /// Writes the header, fsyncs, renames to the final name.
  void finish();

 private:
  template <typename Id>
  void append_as(std::span<const int32_t> ids);

  TokenFileHeader header_;
  std::filesystem::path final_path_;
  std::unique_ptr<FileWriter> file_;
};

/// Writes into a finished token file which shard of how many it is (known when all are written).
void mark_shard(const std::filesystem::path& path, int64_t shard, int64_t n_shards);

}  // namespace tril
