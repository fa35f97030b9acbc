#include "tril/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "cache_entry.h"
#include "tokenize_documents.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"
#include "tril/data/nanogpt_meta.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// A file that prepare writes: tokenizer.json, train.tokens, validation_00012.tokens, ...
bool is_ours(const std::string& name) {
  if (name == kTokenizerFile) return true;
  if (!name.ends_with(".tokens")) return false;
  std::string stem = name.substr(0, name.size() - std::string(".tokens").size());
  if (const size_t number = stem.rfind('_'); number != std::string::npos) {
    const std::string digits = stem.substr(number + 1);
    if (digits.size() < 5 || digits.find_first_not_of("0123456789") != std::string::npos) {
      return false;
    }
    stem.resize(number);
  }
  return stem == "train" || stem == "validation";
}

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

  /// Where to write files that publish() will move to their places.
  const fs::path& staging() const { return staging_; }

  /// Moves the written files to their places. While this runs there is no tokenizer.json, so files
  /// of two different calls are never taken for one set.
  void publish() {
    std::vector<fs::path> old;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (is_ours(entry.path().filename().string())) old.push_back(entry.path());
    }
    fs::remove(folder_ / kTokenizerFile);  // first
    for (const fs::path& path : old) fs::remove(path);
    fsync_folder(folder_);
    std::vector<fs::path> made;
    for (const fs::directory_entry& entry : fs::directory_iterator(staging_)) {
      const std::string name = entry.path().filename().string();
      if (is_ours(name) && name != kTokenizerFile) made.push_back(entry.path());
    }
    made.push_back(staging_ / kTokenizerFile);  // last
    for (const fs::path& path : made) fs::rename(path, folder_ / path.filename());
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

int64_t validation_begin(int64_t text_bytes, double fraction) {
  if (!(fraction >= 0.0 && fraction < 1.0)) {
    throw ConfigError(fmt::format(
        "the validation fraction is {}: expected at least 0 (no validation) and less than 1",
        fraction));
  }
  return static_cast<int64_t>(std::floor(static_cast<double>(text_bytes) * (1.0 - fraction)));
}

namespace {

void check_options(const PrepareOptions& options) {
  validation_begin(/*text_bytes=*/1, options.validation_fraction);  // refuses a bad fraction
  if (options.inputs.empty()) throw ConfigError("no input: expected at least one text file");
  if (options.shard_tokens < 0) {
    throw ConfigError(fmt::format("{} ids per shard: expected at least 1, or 0 for one file",
                                  options.shard_tokens));
  }
  if (options.field.empty()) throw ConfigError("the field of JSON lines needs a name");
}

/// What a document is, from the options, the files and the tokenizer.
DocumentRules rules_of(const PrepareOptions& options,
                       const std::vector<InputFile>& files,
                       bool has_end_of_text) {
  const bool any_lines = std::any_of(files.begin(), files.end(), [](const InputFile& file) {
    return file.kind == InputFile::Kind::kJsonLines;
  });
  const bool file_by_file =
      files.size() > 1 && (has_end_of_text || options.split == SplitBy::kDocument);
  DocumentRules rules;
  rules.separator = options.separator;
  rules.field = options.field;
  rules.newlines = options.newlines;
  rules.running_text = !any_lines && options.separator.empty() && !file_by_file;
  if (!has_end_of_text && (any_lines || !options.separator.empty())) rules.end_mark.assign(1, '\n');
  return rules;
}

[[noreturn]] void throw_no_text(const PrepareOptions& options) {
  throw DataError(fmt::format("'{}'{} holds no text",
                              escape_for_message(options.inputs.front().string(), 4096),
                              options.inputs.size() > 1 ? " with the inputs after it" : ""));
}

[[noreturn]] void throw_empty_part(const char* part,
                                   const PrepareOptions& options,
                                   const SplitRule& split,
                                   int64_t text_bytes,
                                   int64_t documents) {
  const bool by_document = split.kind == SplitRule::Kind::kDocument;
  const int64_t n = by_document ? documents : text_bytes;
  throw DataError(fmt::format(
      "the {} part would be empty: the text has {} {}{}, and {} of it is for validation; give more "
      "text, or another --validation-fraction (0: none){}",
      part,
      n,
      by_document ? "document" : "byte",
      n == 1 ? "" : "s",
      options.validation_fraction,
      by_document ? ", or --split share" : ""));
}

/// Both parts hold something, or nothing is written.
void require_text(const TokenizedParts& parts,
                  const PrepareOptions& options,
                  const SplitRule& split) {
  const PreparedSplit none;
  const PreparedSplit& validation = parts.validation ? *parts.validation : none;
  const int64_t text_bytes = parts.train.text_bytes + validation.text_bytes;
  const int64_t documents = parts.train.documents + validation.documents;
  if (text_bytes == 0) throw_no_text(options);
  if (parts.train.tokens == 0) {
    throw_empty_part("training", options, split, text_bytes, documents);
  }
  if (parts.validation && validation.tokens == 0) {
    throw_empty_part("validation", options, split, text_bytes, documents);
  }
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options,
                      const TextHooks& hooks,
                      BlockExchange* exchange) try {
  check_options(options);
  const bool learns = is_learned(options.tokenizer);
  PrepareResult result;
  if (!learns) result.tokenizer = make_data_tokenizer(options.tokenizer, options.vocab);
  const std::vector<InputFile> files = find_input_files(options.inputs, hooks.notice);
  for (const InputFile& file : files) result.input_bytes += checked_text_file_size(file.path);
  result.input_files = static_cast<int64_t>(files.size());

  const bool has_end_of_text =
      learns ? learns_end_of_text(options.tokenizer) : result.tokenizer->end_of_text() >= 0;
  TokenizeJob job{.files = files,
                  .rules = rules_of(options, files, has_end_of_text),
                  .special = options.special,
                  .shard_tokens = options.shard_tokens,
                  .threads = options.threads,
                  .exchange = exchange};
  result.running_text = job.rules.running_text;
  std::unique_ptr<TokenizerLearner> learner;
  if (learns) {
    learner = make_learner(options.tokenizer,
                           {.documents = !result.running_text, .special = options.special});
  }
  job.split.fraction = options.validation_fraction;
  if (options.validation_fraction > 0) {
    const bool by_share = options.split == SplitBy::kShare ||
                          (options.split == SplitBy::kAuto && job.rules.running_text);
    job.split.kind = by_share ? SplitRule::Kind::kShare : SplitRule::Kind::kDocument;
  }

  const bool leads = exchange == nullptr || exchange->is_first();
  std::optional<OutputFolder> folder;
  if (leads) folder.emplace(options.out, options.overwrite);
  // The size of a text on the disk is known; of a compressed, normalised or parsed one it is not.
  const bool share_of_unknown = job.split.kind == SplitRule::Kind::kShare &&
                                !(job.rules.running_text && knows_text_bytes(job));
  const bool scan_first = learner || share_of_unknown;
  TextProgress progress(hooks, result.input_bytes * (scan_first ? 2 : 1));
  int64_t text_bytes = result.input_bytes;
  std::string scanned_fingerprint;
  if (scan_first) {
    const ScannedText scanned = scan_documents(job, learner.get(), progress);
    text_bytes = scanned.text_bytes;
    scanned_fingerprint = scanned.fingerprint;
    if (text_bytes == 0) throw_no_text(options);
    if (learner) {
      result.tokenizer = learner->learn([&] { progress.poll(); });
      const std::string remark = learner->remark();
      if (!remark.empty() && hooks.notice) hooks.notice(remark);
    }
  }
  job.split.cut = validation_begin(text_bytes, options.validation_fraction);

  const TokenizedParts parts =
      tokenize_documents(job, *result.tokenizer, leads ? folder->staging() : "", progress);
  if (!scanned_fingerprint.empty() && scanned_fingerprint != parts.fingerprint) {
    throw DataError(fmt::format("the text changed while it was being read: '{}'{}; start again",
                                escape_for_message(files.front().path.string(), 4096),
                                files.size() > 1 ? " or a file after it" : ""));
  }
  result.train = parts.train;
  result.validation = parts.validation;
  result.carriage_returns = parts.carriage_returns;
  if (!leads) return result;
  require_text(parts, options, job.split);
  write_file_atomically(folder->staging() / kTokenizerFile, dump_json(result.tokenizer->to_json()));
  progress.poll();
  folder->publish();

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
