#pragma once
// Input files cut into blocks that can be tokenised side by side. The cuts depend on the files and
// the tokenizer only.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tril/data/input_files.h"
#include "tril/data/text_reader.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// What a document is.
struct DocumentRules {
  bool running_text = true;    ///< all files are one document, with nothing between them
  int64_t running_cut = -1;    ///< of a running text: a new document begins here (validation)
  std::string separator = {};  ///< stands between the documents of a text file; empty: none
  std::string field = "text";  ///< of a JSON line: the document's text
  std::string end_mark = {};   ///< appended to the text of each document
  Newlines newlines = Newlines::kKeep;
};

/// A stretch of one document's text that can be encoded by itself.
struct TextPiece {
  size_t begin = 0;  ///< in the block's text
  size_t end = 0;
  bool starts_document = false;
  bool ends_document = false;
  size_t file = 0;          ///< of the reader's files
  int64_t file_offset = 0;  ///< of its first byte, in that file's text
};

/// About kBlockBytes of text: pieces, or whole JSON lines that are still to be parsed.
struct TextBlock {
  std::string text;
  std::vector<TextPiece> pieces;  ///< empty for JSON lines
  bool json_lines = false;
  size_t file = 0;         ///< of JSON lines
  int64_t first_line = 1;  ///< number of the first one in its file
};

/// Reads files to blocks, in one pass. Memory: a block, or a document's longest stretch that the
/// tokenizer cannot cut, or the longest JSON line (each at most kMaxUncutBytes, else DataError).
class DocumentReader {
 public:
  /// A thread's caches hold its text and ids; the blocks under way are few megabytes.
  static constexpr size_t kBlockBytes = size_t{256} << 10;
  static constexpr size_t kMaxUncutBytes = size_t{256} << 20;

  /// `tokenizer` may be null: text is then cut between UTF-8 characters. `on_piece` as in
  /// TextReader.
  DocumentReader(std::vector<InputFile> files,
                 DocumentRules rules,
                 const Tokenizer* tokenizer,
                 SpecialText special,
                 std::function<void(int64_t n_bytes)> on_piece);

  /// False at the end of all files.
  bool next(TextBlock& block);

  const std::vector<InputFile>& files() const { return files_; }
  /// Of the text files read so far. (Those of JSON lines are found when the lines are parsed.)
  const CarriageReturns& carriage_returns() const { return carriage_returns_; }
  /// Of all files' content, after the end.
  std::string fingerprint() const { return fingerprint_.hex(); }
  /// Names the fault at `offset` of a piece, or of the document in a JSON line.
  [[noreturn]] void throw_located(const EncodeError& error,
                                  size_t file,
                                  int64_t offset,
                                  int64_t line = 0) const;

 private:
  bool open_next();
  void close_current();
  void take_text(TextBlock& block);
  void take_lines(TextBlock& block);
  void add_piece(TextBlock& block, size_t n_bytes, bool ends_document);
  size_t uncut_prefix(std::string_view text, bool at_end) const;
  [[noreturn]] void throw_too_long(const char* what) const;

  std::vector<InputFile> files_;
  DocumentRules rules_;
  const Tokenizer* tokenizer_;
  SpecialText special_;
  std::function<void(int64_t)> on_piece_;

  size_t next_file_ = 0;
  size_t file_ = 0;  // the open one, or the first one of a running text
  std::unique_ptr<TextReader> reader_;
  std::unique_ptr<TextReader> finished_;  // the one before, for the places of faults
  std::string pending_;                   // read, and not yet in a block
  size_t pending_begin_ = 0;              // what of it has gone into a block
  int64_t pending_offset_ = 0;            // of pending_[pending_begin_] in the file's text
  bool in_document_ = false;
  bool cut_done_ = false;
  int64_t line_ = 1;
  CarriageReturns carriage_returns_;
  FingerprintStream fingerprint_;
};

/// The documents of a block of JSON lines, each appended to `text` with its piece (file_offset is
/// the line's number). Blank lines are passed over, and so are documents without text. Throws
/// DataError: file, line, what is wrong.
void parse_json_lines(const TextBlock& block,
                      const std::filesystem::path& file,
                      const DocumentRules& rules,
                      std::string& text,
                      std::vector<TextPiece>& pieces,
                      CarriageReturns& carriage_returns);

}  // namespace tril
