#include "tril/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "tril/base/file.h"
#include "tril/tokenizer/char_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTrainFile = "train.tokens";
constexpr const char* kValidationFile = "validation.tokens";
constexpr const char* kTokenizerFile = "tokenizer.json";

/// Turns what the file system says into an error that names the path and can be acted on.
[[noreturn]] void throw_folder_error(const fs::filesystem_error& error) {
  const std::string message =
      fmt::format("cannot write '{}': {}", error.path1().string(), error.code().message());
  if (error.code() == std::errc::no_space_on_device) throw ResourceError(message);
  throw ConfigError(message);
}

/// The output folder, and inside it a hidden one for files that are being written. A lock in the
/// hidden folder tells the left-over of a killed process from the work of a living one.
class OutputFolder {
 public:
  OutputFolder(const fs::path& folder, bool overwrite) : folder_(folder) {
    if (fs::exists(folder_)) {
      if (!fs::is_directory(folder_)) {
        throw ConfigError(fmt::format("'{}' is a file: expected a folder", folder_.string()));
      }
      refuse_or_clean(overwrite);
    }
    try {
      make_with_parents(folder_);
      staging_ = temporary_sibling(folder_ / kStagingName);
      fs::create_directory(staging_);
      lock_ = FileLock::try_acquire(staging_ / kLockName);
    } catch (...) {
      remove_leftovers();
      throw;
    }
  }
  ~OutputFolder() { remove_leftovers(); }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write a file that publish() will move to its place.
  fs::path staged(const char* name) const { return staging_ / name; }

  /// Moves the written files to their places. While this runs there is no tokenizer.json, so files
  /// of two different calls are never taken for one set.
  void publish() {
    for (const char* name : {kTokenizerFile, kValidationFile, kTrainFile}) {
      fs::remove(folder_ / name);
    }
    fsync_folder(folder_);
    for (const char* name : {kTrainFile, kValidationFile, kTokenizerFile}) {
      if (fs::exists(staged(name))) fs::rename(staged(name), folder_ / name);
    }
    fsync_folder(folder_);
    made_folders_.clear();  // they are the user's now
  }

 private:
  static constexpr const char* kStagingName = "prepare";
  static constexpr const char* kLockName = "lock";

  void make_with_parents(const fs::path& folder) {
    if (folder.empty() || fs::exists(folder)) return;
    make_with_parents(folder.parent_path());
    if (fs::create_directory(folder)) made_folders_.push_back(folder);
  }

  void refuse_or_clean(bool overwrite) const {
    std::vector<fs::path> abandoned;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const fs::path lock = entry.path() / kLockName;
      std::string owner;
      if (!is_temporary_name(entry.path())) {
        if (overwrite) continue;
        throw ConfigError(
            fmt::format("the folder '{}' is not empty (it holds '{}'): choose another "
                        "one, or allow overwriting with --overwrite",
                        folder_.string(),
                        entry.path().filename().string()));
      }
      if (!fs::exists(lock)) continue;  // not ours
      if (!FileLock::try_acquire(lock, &owner)) {
        throw ConfigError(fmt::format(
            "another process ({}) is preparing into the folder '{}'", owner, folder_.string()));
      }
      abandoned.push_back(entry.path());
    }
    for (const fs::path& path : abandoned) fs::remove_all(path);
  }

  void remove_leftovers() {
    lock_.reset();
    std::error_code ignored;
    if (!staging_.empty()) fs::remove_all(staging_, ignored);
    for (auto it = made_folders_.rbegin(); it != made_folders_.rend(); ++it) {
      fs::remove(*it, ignored);
    }
  }

  fs::path folder_;
  fs::path staging_;
  std::vector<fs::path> made_folders_;  // by us, parents first
  std::optional<FileLock> lock_;
};

}  // namespace

void scan_text(TextReader& reader, CharVocabularyBuilder* vocabulary) {
  std::string piece;
  try {
    while (reader.read(piece, TextReader::kPieceBytes) > 0) {
      if (vocabulary != nullptr) vocabulary->add(piece);
      piece.clear();
    }
    if (vocabulary != nullptr) vocabulary->end_text();
  } catch (const EncodeError& error) {
    reader.throw_located(error, error.offset());
  }
  reader.check_unchanged("");
}

PreparedSplit tokenize_text(TextReader& reader,
                            int64_t end,
                            const Tokenizer& tokenizer,
                            const fs::path& out) {
  TokenFileWriter writer(out, tokenizer.vocab_size(), tokenizer.fingerprint());
  PreparedSplit split;
  std::string text;  // read and not yet encoded
  std::vector<int32_t> ids;
  int64_t text_begin = reader.offset();  // offset of `text` in the whole
  bool at_end = false;
  while (!at_end) {
    const int64_t n_wanted = std::min(TextReader::kPieceBytes, end - reader.offset());
    const int64_t n_bytes = reader.read(text, n_wanted);
    at_end = n_bytes == 0 || reader.offset() >= end;
    // A character has at most three bytes after its first.
    for (int i = 0; at_end && i < 3 && reader.next_is_continuation(); ++i) reader.read(text, 1);

    const size_t n_ready = tokenizer.safe_prefix(text, at_end);
    ids.clear();
    try {
      tokenizer.encode_to(std::string_view(text).substr(0, n_ready), ids);
    } catch (const EncodeError& error) {
      reader.throw_located(error, text_begin + error.offset());
    }
    writer.append(ids);
    writer.add_text_bytes(static_cast<int64_t>(n_ready));
    split.text_bytes += static_cast<int64_t>(n_ready);
    text.erase(0, n_ready);
    text_begin += static_cast<int64_t>(n_ready);
  }
  split.tokens = writer.count();
  writer.finish();
  return split;
}

int64_t validation_begin(int64_t text_bytes, double fraction) {
  if (!(fraction >= 0.0 && fraction < 1.0)) {
    throw ConfigError(fmt::format(
        "the validation fraction is {}: expected at least 0 (no validation) and less than 1",
        fraction));
  }
  return static_cast<int64_t>(std::floor(static_cast<double>(text_bytes) * (1.0 - fraction)));
}

PrepareResult prepare(const PrepareOptions& options, const TextHooks& hooks) try {
  validation_begin(/*text_bytes=*/1, options.validation_fraction);  // refuses a bad fraction first
  if (options.inputs.empty()) throw ConfigError("no input: expected at least one text file");

  const bool want_vocabulary = options.tokenizer == "char";
  const bool scan_first = want_vocabulary || options.newlines == Newlines::kNormalize;
  PrepareResult result;
  if (!want_vocabulary) result.tokenizer = make_tokenizer(options.tokenizer);

  TextReader reader(options.inputs, options.newlines);
  OutputFolder folder(options.out, options.overwrite);
  TextProgress progress(hooks, reader.file_bytes() * (scan_first ? 2 : 1));
  int64_t text_bytes = reader.file_bytes();
  std::string scanned_fingerprint;
  if (scan_first) {
    TextReader scanner(options.inputs, options.newlines);
    CharVocabularyBuilder vocabulary;
    progress.watch(scanner);
    scan_text(scanner, want_vocabulary ? &vocabulary : nullptr);
    text_bytes = scanner.offset();
    scanned_fingerprint = scanner.fingerprint();
    if (want_vocabulary) result.tokenizer = std::make_shared<CharTokenizer>(vocabulary.finish());
  }

  progress.watch(reader);
  const int64_t cut = validation_begin(text_bytes, options.validation_fraction);
  result.train = tokenize_text(reader, cut, *result.tokenizer, folder.staged(kTrainFile));
  if (options.validation_fraction > 0) {
    result.validation =
        tokenize_text(reader, text_bytes, *result.tokenizer, folder.staged(kValidationFile));
  }
  reader.check_unchanged(scanned_fingerprint);
  result.carriage_returns = reader.carriage_returns();
  write_file_atomically(folder.staged(kTokenizerFile), dump_json(result.tokenizer->to_json()));
  folder.publish();

  const std::string notice = describe_carriage_returns(result.carriage_returns, options.newlines);
  if (!notice.empty() && hooks.notice) hooks.notice(notice);
  return result;
} catch (const fs::filesystem_error& error) {
  throw_folder_error(error);
}

std::string describe_carriage_returns(const CarriageReturns& found, Newlines newlines) {
  if (found.crlf == 0 && found.lone == 0) return "";
  return fmt::format("the text has {} CR LF line end{} and {} CR without LF; {}",
                     found.crlf,
                     found.crlf == 1 ? "" : "s",
                     found.lone,
                     newlines == Newlines::kNormalize
                         ? "all became LF, as asked"
                         : "they are kept as they are and the model will learn to write them "
                           "(`tril prepare --normalize-newlines` turns them into LF)");
}

TokenFileSummary describe_token_file(const fs::path& path) {
  const TokenFile file = TokenFile::open(path);
  TokenFileSummary summary;
  summary.header = file.header();
  std::vector<bool> used;
  std::vector<int64_t> ids(size_t{1} << 16);
  for (int64_t begin = 0; begin < file.size(); begin += static_cast<int64_t>(ids.size())) {
    ids.resize(
        static_cast<size_t>(std::min(static_cast<int64_t>(ids.size()), file.size() - begin)));
    file.read(begin, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids[i];
      if (id < 0 || id >= summary.header.vocab_size) {
        throw DataError(
            fmt::format("'{}' is damaged: token {} has id {}, outside its vocabulary of "
                        "{}; run `tril prepare` again",
                        path.string(),
                        begin + static_cast<int64_t>(i),
                        id,
                        summary.header.vocab_size));
      }
      if (id > summary.highest_id) {
        summary.highest_id = id;
        used.resize(static_cast<size_t>(id) + 1);
      }
      if (!used[static_cast<size_t>(id)]) {
        used[static_cast<size_t>(id)] = true;
        ++summary.distinct_ids;
      }
    }
  }
  if (file.size() > 0) {
    summary.text_bytes_per_token =
        static_cast<double>(summary.header.text_bytes) / static_cast<double>(file.size());
  }
  summary.content_fingerprint = fingerprint_file(path, FileRole::kData);
  return summary;
}

TokenFile open_token_file_checked(const fs::path& path, const Tokenizer& expected) {
  TokenFile file = TokenFile::open(path);
  const TokenFileHeader& header = file.header();
  if (header.tokenizer_fingerprint != expected.fingerprint()) {
    throw DataError(
        fmt::format("'{}' was prepared with another tokenizer: expected the {} tokenizer "
                    "with {} ids and fingerprint {}, found {} ids and fingerprint {}; "
                    "prepare the text again with this model's tokenizer.json",
                    path.string(),
                    expected.kind(),
                    expected.vocab_size(),
                    expected.fingerprint(),
                    header.vocab_size,
                    header.tokenizer_fingerprint));
  }
  if (header.vocab_size > expected.vocab_size()) {
    throw DataError(
        fmt::format("'{}' is damaged: its vocabulary of {} is larger than its "
                    "tokenizer's ({}); run `tril prepare` again",
                    path.string(),
                    header.vocab_size,
                    expected.vocab_size()));
  }
  return file;
}

}  // namespace tril
