#include "document_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tril/base/file.h"
#include "tril/base/utf8.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// Length of `text` without a character at its end whose last bytes may still come.
size_t without_cut_character(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(4, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    return byte >= 0xC0 ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

DocumentReader::DocumentReader(std::vector<InputFile> files,
                               DocumentRules rules,
                               const Tokenizer* tokenizer,
                               SpecialText special,
                               std::function<void(int64_t)> on_piece)
    : files_(std::move(files)),
      rules_(std::move(rules)),
      tokenizer_(tokenizer),
      special_(special),
      on_piece_(std::move(on_piece)) {}

bool DocumentReader::next(TextBlock& block) {
  block.text.clear();
  block.pieces.clear();
  block.json_lines = false;
  const auto is_empty = [&] { return block.text.empty() && block.pieces.empty(); };
  while (block.text.size() < kBlockBytes) {
    if (!reader_ && !open_next()) break;
    const bool lines = files_[file_].kind == InputFile::Kind::kJsonLines && !rules_.running_text;
    if (lines) {
      if (!is_empty()) break;  // a block is of one kind
      take_lines(block);
      block.json_lines = !block.text.empty();
      if (block.json_lines) break;
    } else {
      take_text(block);
    }
  }
  return !is_empty();
}

bool DocumentReader::open_next() {
  if (next_file_ == files_.size()) return false;
  file_ = next_file_;
  std::vector<fs::path> paths;
  if (rules_.running_text) {
    for (const InputFile& file : files_) paths.push_back(file.path);
    next_file_ = files_.size();
  } else {
    paths.push_back(files_[next_file_++].path);
  }
  const bool lines = files_[file_].kind == InputFile::Kind::kJsonLines && !rules_.running_text;
  // CR LF at the end of a JSON line is white space; inside a document it is an escape.
  reader_ = std::make_unique<TextReader>(paths, lines ? Newlines::kKeep : rules_.newlines);
  if (on_piece_) reader_->set_on_piece(on_piece_);
  pending_.clear();
  pending_begin_ = 0;
  pending_offset_ = 0;
  line_ = 1;
  in_document_ = false;
  return true;
}

void DocumentReader::close_current() {
  reader_->check_unchanged("");
  if (files_[file_].kind == InputFile::Kind::kText || rules_.running_text) {
    carriage_returns_.crlf += reader_->carriage_returns().crlf;
    carriage_returns_.lone += reader_->carriage_returns().lone;
  }
  const std::string content = reader_->fingerprint();
  fingerprint_.update(content.data(), content.size());
  finished_ = std::move(reader_);
}

/// How much of the text can be encoded by itself.
size_t DocumentReader::uncut_prefix(std::string_view text, bool at_end) const {
  if (tokenizer_ != nullptr) return tokenizer_->safe_prefix(text, at_end, special_);
  return at_end ? text.size() : without_cut_character(text);
}

void DocumentReader::throw_too_long(const char* what) const {
  throw DataError(
      fmt::format("'{}': {} longer than {} MiB near byte {}: cut it, or prepare it "
                  "with --tokenizer byte",
                  shown(files_[file_].path),
                  what,
                  kMaxUncutBytes >> 20,
                  pending_offset_));
}

void DocumentReader::add_piece(TextBlock& block, size_t n_bytes, bool ends_document) {
  if (n_bytes > 0 || (in_document_ && ends_document)) {
    const size_t begin = block.text.size();
    block.text.append(pending_, pending_begin_, n_bytes);
    if (ends_document) block.text += rules_.end_mark;
    block.pieces.push_back({.begin = begin,
                            .end = block.text.size(),
                            .starts_document = !in_document_,
                            .ends_document = ends_document,
                            .file = file_,
                            .file_offset = pending_offset_});
    in_document_ = !ends_document;
  }
  pending_begin_ += n_bytes;
  pending_offset_ += static_cast<int64_t>(n_bytes);
}

/// Adds one stretch of the open text file to the block; at its end closes it.
void DocumentReader::take_text(TextBlock& block) {
  pending_.erase(0, pending_begin_);
  pending_begin_ = 0;
  const bool before_cut = rules_.running_cut >= 0 && !cut_done_;
  const int64_t limit = before_cut ? rules_.running_cut : std::numeric_limits<int64_t>::max();
  // Twice as much each time that nothing could be cut off before.
  size_t wanted = std::max(kBlockBytes, 2 * pending_.size());
  bool at_file_end = false;
  bool at_cut = before_cut && reader_->offset() >= limit;
  while (pending_.size() < wanted && !at_cut) {
    const int64_t room = std::min<int64_t>(static_cast<int64_t>(wanted - pending_.size()),
                                           limit - reader_->offset());
    if (reader_->read(pending_, room) == 0) {
      at_file_end = true;
      break;
    }
    at_cut = before_cut && reader_->offset() >= limit;
  }
  // A character has at most three bytes after its first.
  for (int i = 0; at_cut && i < 3 && reader_->next_is_continuation(); ++i) {
    reader_->read(pending_, 1);
  }

  const std::string& separator = rules_.separator;
  if (!separator.empty() && !rules_.running_text) {
    size_t at = pending_.find(separator);
    for (; at != std::string::npos; at = pending_.find(separator, pending_begin_)) {
      add_piece(block, at - pending_begin_, /*ends_document=*/true);
      in_document_ = false;
      pending_begin_ += separator.size();
      pending_offset_ += static_cast<int64_t>(separator.size());
    }
  }
  std::string_view rest = std::string_view(pending_).substr(pending_begin_);
  if (at_cut || at_file_end) {
    add_piece(block, uncut_prefix(rest, /*at_end=*/true), /*ends_document=*/true);
    in_document_ = false;
    cut_done_ = cut_done_ || at_cut;
    if (at_file_end) close_current();
    return;
  }
  if (!separator.empty() && !rules_.running_text) {
    // A separator may have begun at the end: what it would take stays.
    rest.remove_suffix(std::min(rest.size(), separator.size() - 1));
  }
  const size_t n_ready = uncut_prefix(rest, /*at_end=*/false);
  if (n_ready == 0 && pending_.size() - pending_begin_ > kMaxUncutBytes) {
    throw_too_long("a stretch that the tokenizer cannot cut is");
  }
  add_piece(block, n_ready, /*ends_document=*/false);
}

/// Fills the (empty) block with whole lines of the open file; at its end closes it.
void DocumentReader::take_lines(TextBlock& block) {
  block.file = file_;
  block.first_line = line_;
  block.text.swap(pending_);
  pending_.clear();
  size_t last_end = std::string::npos;
  bool at_end = false;
  while (last_end == std::string::npos && !at_end) {
    const size_t before = block.text.size();
    if (before > kMaxUncutBytes) throw_too_long("a JSON line is");
    while (block.text.size() < std::max(kBlockBytes, before + 1) && !at_end) {
      at_end = reader_->read(block.text, static_cast<int64_t>(kBlockBytes)) == 0;
    }
    // What was there before holds no line end.
    const size_t at = std::string_view(block.text).substr(before).rfind('\n');
    if (at != std::string_view::npos) last_end = before + at;
  }
  if (at_end) {
    close_current();
    return;
  }
  pending_.assign(block.text, last_end + 1);
  block.text.resize(last_end + 1);
  line_ += std::count(block.text.begin(), block.text.end(), '\n');
  pending_offset_ += static_cast<int64_t>(block.text.size());
}

void DocumentReader::throw_located(const EncodeError& error,
                                   size_t file,
                                   int64_t offset,
                                   int64_t line) const {
  if (line > 0) {
    throw error.located(
        offset, fmt::format(" of the text in line {} of '{}'", line, shown(files_[file].path)));
  }
  // The reader of a running text knows where each of its files began.
  if (rules_.running_text) (reader_ ? reader_ : finished_)->throw_located(error, offset);
  if (rules_.newlines == Newlines::kNormalize) {
    throw error.located(
        offset, fmt::format(" of '{}' with normalised line ends", shown(files_[file].path)));
  }
  throw error.located(offset, fmt::format(" of '{}'", shown(files_[file].path)));
}

}  // namespace tril
