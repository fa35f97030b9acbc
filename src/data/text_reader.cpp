#include "tril/data/text_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tril/base/file.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {
namespace {

/// A path for a message, which stays one line whatever the name holds.
}  // namespace

int64_t checked_text_file_size(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    throw DataError(
        missing
            ? fmt::format("no text file '{}'", shown(path))
            : fmt::format("cannot read the text file '{}': {}", shown(path), std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode)) {
    throw DataError(fmt::format("'{}' is a folder: expected a text file", shown(path)));
  }
  if (!S_ISREG(info.st_mode)) {
    throw DataError(fmt::format(
        "'{}' is not a regular file: the text is read more than once, so save it to a file first",
        shown(path)));
  }
  if (info.st_size == 0) {
    throw DataError(fmt::format("the text file '{}' is empty (0 bytes)", shown(path)));
  }
  if (::access(path.c_str(), R_OK) != 0) {
    throw DataError(
        fmt::format("cannot read the text file '{}': {}", shown(path), std::strerror(errno)));
  }
  return info.st_size;
}

TextReader::TextReader(std::vector<std::filesystem::path> files, Newlines newlines)
    : files_(std::move(files)), newlines_(newlines) {
  for (const std::filesystem::path& file : files_) {
    sizes_.push_back(checked_text_file_size(file));
    file_bytes_ += sizes_.back();
  }
}

bool TextReader::knows_text_bytes() const {
  return newlines_ == Newlines::kKeep &&
         std::none_of(files_.begin(), files_.end(), is_compressed_name);
}

int64_t TextReader::read(std::string& out, int64_t max_bytes) {
  if (max_bytes <= 0 || (buffer_begin_ == buffer_.size() && !fill())) return 0;
  const size_t n_bytes = std::min(static_cast<size_t>(max_bytes), buffer_.size() - buffer_begin_);
  out.append(buffer_, buffer_begin_, n_bytes);
  buffer_begin_ += n_bytes;
  offset_ += static_cast<int64_t>(n_bytes);
  return static_cast<int64_t>(n_bytes);
}

bool TextReader::next_is_continuation() {
  if (buffer_begin_ == buffer_.size() && !fill()) return false;
  return (static_cast<unsigned char>(buffer_[buffer_begin_]) & 0xC0) == 0x80;
}

/// Puts the next piece of a file into the buffer; false at the end of the last file.
bool TextReader::fill() {
  buffer_.clear();
  buffer_begin_ = 0;
  // A piece can be empty after normalising (the LF of a CR LF), so go on until there is something.
  while (buffer_.empty()) {
    if (!source_) {
      if (next_file_ == files_.size()) return false;
      source_ = open_byte_source(files_[next_file_]);
      ++next_file_;
      text_begins_.push_back(offset_);
    }
    const int64_t before = source_->file_bytes_read();
    buffer_.resize(static_cast<size_t>(kPieceBytes));
    const size_t n_bytes = source_->read(buffer_.data(), buffer_.size());
    buffer_.resize(n_bytes);
    const int64_t n_file_bytes = source_->file_bytes_read() - before;
    file_bytes_read_ += n_file_bytes;
    if (on_piece_ && n_file_bytes > 0) on_piece_(n_file_bytes);
    if (n_bytes == 0) {
      source_.reset();
      continue;
    }
    fingerprint_.update(buffer_.data(), buffer_.size());
    count_carriage_returns(buffer_);
    if (newlines_ == Newlines::kNormalize) normalize(buffer_);
  }
  return true;
}

void TextReader::count_carriage_returns(std::string_view piece) {
  const auto turn_into_pair = [this] {
    --carriage_returns_.lone;
    ++carriage_returns_.crlf;
  };
  if (last_was_cr_ && piece.front() == '\n') turn_into_pair();
  for (size_t at = piece.find('\r'); at != std::string_view::npos; at = piece.find('\r', at + 1)) {
    ++carriage_returns_.lone;
    if (at + 1 < piece.size() && piece[at + 1] == '\n') turn_into_pair();
  }
  last_was_cr_ = piece.back() == '\r';
}

void TextReader::normalize(std::string& piece) {
  size_t kept = 0;
  for (const char c : piece) {
    if (c == '\n' && last_was_normalized_cr_) {
      last_was_normalized_cr_ = false;
      continue;
    }
    last_was_normalized_cr_ = c == '\r';
    piece[kept++] = c == '\r' ? '\n' : c;
  }
  piece.resize(kept);
}

void TextReader::check_unchanged(const std::string& expected_fingerprint) const {
  const bool same_content = expected_fingerprint.empty() || expected_fingerprint == fingerprint();
  if (file_bytes_read_ == file_bytes_ && same_content) return;
  throw DataError(fmt::format("the text changed while it was being read: '{}'{}; start again",
                              shown(files_.front()),
                              files_.size() > 1 ? " or a file after it" : ""));
}

void TextReader::throw_located(const EncodeError& error, int64_t offset) const {
  size_t file = 0;
  if (newlines_ == Newlines::kNormalize) {
    throw error.located(offset, " of the text with normalised line ends");
  }
  while (file + 1 < text_begins_.size() && offset >= text_begins_[file + 1]) ++file;
  if (!text_begins_.empty()) offset -= text_begins_[file];
  throw error.located(offset, fmt::format(" of '{}'", shown(files_[file])));
}

void TextProgress::watch(TextReader& reader) {
  reader.set_on_piece([this](int64_t n_bytes) { add(n_bytes); });
}

void TextProgress::add(int64_t n_bytes) {
  bytes_done_ += n_bytes;
  if (hooks_.progress) hooks_.progress(bytes_done_, bytes_total_);
  poll();
}

void TextProgress::poll() const {
  if (hooks_.stop && hooks_.stop()) throw Interrupted();
}

}  // namespace tril
