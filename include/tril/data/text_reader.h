#pragma once
// Text from files, read in pieces: memory does not grow with the text.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/data/byte_source.h"

namespace tril {

class EncodeError;

/// How a long job on text talks to its caller; every member may be empty.
struct TextHooks {
  /// Work done so far, in bytes of text read; all passes over the text count.
  std::function<void(int64_t bytes_done, int64_t bytes_total)> progress = {};
  /// Asked after every piece; true makes the job clean up and throw Interrupted.
  std::function<bool()> stop = {};
  /// Something the user should know that is not an error, without a line end.
  std::function<void(const std::string& message)> notice = {};
};

/// A job ended because TextHooks::stop said so. Nothing is left behind. Its exit code is SIGINT's;
/// who polls signals knows the real one.
class Interrupted : public Error {
 public:
  Interrupted() : Error(130, "interrupted: nothing was written") {}
};

/// What becomes of CR and CR LF line ends.
enum class Newlines {
  kKeep,      ///< byte-exact
  kNormalize  ///< CR LF and lone CR become LF
};

/// CR line ends seen in a text.
struct CarriageReturns {
  int64_t crlf = 0;  ///< CR LF pairs
  int64_t lone = 0;  ///< CR without a following LF
};

/// Size of a file that holds text. Throws DataError naming the path and the reason: missing, a
/// folder, not a regular file, empty, or not readable.
int64_t checked_text_file_size(const std::filesystem::path& path);

/// Files (.gz and .zst are decompressed) as one text, in the given order, with nothing between
/// them.
class TextReader {
 public:
  static constexpr int64_t kPieceBytes = int64_t{1} << 20;

  /// Checks every file at once. Throws as checked_text_file_size does.
  TextReader(std::vector<std::filesystem::path> files, Newlines newlines);
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// Appends up to `max_bytes` of the text to `out`; returns how many, 0 only at the end of the
  /// text. Throws DataError when a file cannot be read on.
  int64_t read(std::string& out, int64_t max_bytes);
  /// True when the next byte is the inside of a UTF-8 character.
  bool next_is_continuation();

  /// Called with how many bytes of a file (compressed ones, perhaps) were used up, as it is read.
  void set_on_piece(std::function<void(int64_t n_bytes)> on_piece) {
    on_piece_ = std::move(on_piece);
  }

  /// Bytes of text given out so far (after Newlines).
  int64_t offset() const { return offset_; }
  /// Bytes of all files together, as they are on the disk, when they were opened.
  int64_t file_bytes() const { return file_bytes_; }
  /// Is the size of the text known before it is read? (Not of a compressed or normalised one.)
  bool knows_text_bytes() const;
  /// Of the text read so far, as it is in the files.
  const CarriageReturns& carriage_returns() const { return carriage_returns_; }
  std::string fingerprint() const { return fingerprint_.hex(); }
  /// Throws DataError if the text read to its end differs in size from what was opened, or from
  /// `expected_fingerprint` (unless that is empty): a file changed while it was being read.
  void check_unchanged(const std::string& expected_fingerprint) const;

  /// Throws the fault at `offset` of the text, named by its file and the offset there.
  [[noreturn]] void throw_located(const EncodeError& error, int64_t offset) const;

 private:
  bool fill();
  void count_carriage_returns(std::string_view piece);
  void normalize(std::string& piece);

  std::vector<std::filesystem::path> files_;
  std::vector<int64_t> sizes_;
  Newlines newlines_;
  std::function<void(int64_t)> on_piece_;
  int64_t file_bytes_ = 0;
  int64_t file_bytes_read_ = 0;  // of the files before the open one
  size_t next_file_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::vector<int64_t> text_begins_;  // of the files opened so far: offset of their first byte
  std::string buffer_;
  size_t buffer_begin_ = 0;
  int64_t offset_ = 0;
  CarriageReturns carriage_returns_;
  bool last_was_cr_ = false;             // of the bytes counted
  bool last_was_normalized_cr_ = false;  // of the bytes given on
  FingerprintStream fingerprint_;
};

/// Reports to the hooks after every piece, over several passes of one or more texts.
class TextProgress {
 public:
  TextProgress(const TextHooks& hooks, int64_t bytes_total)
      : hooks_(hooks), bytes_total_(bytes_total) {}
  /// From now on `reader`, which this object must outlive, counts. Its reads may throw Interrupted.
  void watch(TextReader& reader);
  /// So many more bytes are done. Throws Interrupted.
  void add(int64_t n_bytes);
  /// Throws Interrupted when the hooks say stop.
  void poll() const;

 private:
  const TextHooks& hooks_;
  int64_t bytes_total_;
  int64_t bytes_done_ = 0;
};

}  // namespace tril
