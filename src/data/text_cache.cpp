#include "tril/data/text_cache.h"

#include <fmt/format.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tril/base/file.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/char_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

// A new number makes every cached text anew: raise it when the same text would give other files.
constexpr int kFormatVersion = 1;
constexpr const char* kTrainFile = "train.tokens";
constexpr const char* kValidationFile = "validation.tokens";
constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kEntryFile = "entry.json";
constexpr auto kLockPoll = std::chrono::milliseconds(20);

/// The source with everything that decides what its tokens are.
struct Text {
  TextSource source;
  int64_t text_bytes = 0;
  int64_t validation_bytes = 0;        // of the separate file; 0 without one
  int64_t cut = -1;                    // where validation begins in the text; -1: nowhere
  std::string fingerprint;             // of the text
  std::string validation_fingerprint;  // of the separate file; empty without one

  bool has_validation() const { return cut >= 0 || source.validation_text; }
  std::string all_fingerprint() const {
    return source.validation_text ? tril::fingerprint(fingerprint + validation_fingerprint)
                                  : fingerprint;
  }
};

/// Reads a file through for its fingerprint; `n_bytes` receives its size.
std::string hash_text(const fs::path& path, const TextHooks& hooks, int64_t* n_bytes) {
  TextReader reader({path}, Newlines::kKeep);
  const TextHooks only_stop{.stop = hooks.stop};
  TextProgress progress(only_stop, reader.file_bytes());
  progress.watch(reader);
  scan_text(reader, nullptr);
  *n_bytes = reader.file_bytes();
  return reader.fingerprint();
}

Text examine(const TextSource& source, const TextHooks& hooks) {
  Text text;
  text.source = source;
  text.fingerprint = hash_text(source.text, hooks, &text.text_bytes);
  if (source.validation_text) {
    text.validation_fingerprint = hash_text(*source.validation_text, hooks, &text.validation_bytes);
  } else if (source.validation_begin) {
    text.cut = *source.validation_begin;
    if (text.cut < 0 || text.cut > text.text_bytes) {
      throw DataError(
          fmt::format("the validation part of '{}' should begin at byte {}, but the "
                      "text has {} bytes",
                      source.text.string(),
                      text.cut,
                      text.text_bytes));
    }
  } else if (source.validation_fraction != 0.0) {
    text.cut = validation_begin(text.text_bytes, source.validation_fraction);
  }
  return text;
}

/// `tokenizer`: its fingerprint, or "char" for the vocabulary of the text itself.
std::string entry_key(const Text& text, const std::string& tokenizer) {
  return fingerprint(fmt::format("tril text cache {}\ntext {}\nvalidation {}\ncut {}\n{}\n",
                                 kFormatVersion,
                                 text.fingerprint,
                                 text.validation_fingerprint,
                                 text.cut,
                                 tokenizer));
}

/// One folder of the cache: token files, tokenizer.json, and entry.json, which names the key and
/// the fingerprint of every other file.
class Entry {
 public:
  Entry(const fs::path& root, std::string key)
      : root_(root), key_(std::move(key)), folder_(root / key_) {}

  /// The content, or nothing when the entry is missing, incomplete, damaged or foreign.
  std::optional<TokenizedText> open(bool has_validation) const {
    std::error_code error;
    if (!fs::exists(folder_ / kEntryFile, error)) return std::nullopt;
    try {
      const Json json = read_json_file(folder_ / kEntryFile, FileRole::kData);
      const auto intact = [&](const char* name) {
        return json.at("files").at(name) == fingerprint_file(folder_ / name, FileRole::kData);
      };
      if (json.at("key") != key_ || !intact(kTokenizerFile) || !intact(kTrainFile)) {
        return std::nullopt;
      }
      TokenizedText text;
      text.tokenizer = load_tokenizer(folder_ / kTokenizerFile);
      text.train = open_token_file_checked(folder_ / kTrainFile, *text.tokenizer);
      if (has_validation) {
        if (!intact(kValidationFile)) return std::nullopt;
        text.validation = open_token_file_checked(folder_ / kValidationFile, *text.tokenizer);
      }
      return text;
    } catch (const Error&) {
      return std::nullopt;
    } catch (const Json::exception&) {
      return std::nullopt;
    }
  }

  /// Only one process at a time makes an entry.
  FileLock lock(const TextHooks& hooks) const {
    const fs::path path = root_ / (key_ + ".lock");
    for (bool told = false;; told = true) {
      std::string owner;
      if (std::optional<FileLock> lock = FileLock::try_acquire(path, &owner)) {
        return std::move(*lock);
      }
      if (!told && hooks.notice) {
        hooks.notice(
            fmt::format("waiting for another process ({}), which is tokenizing this text", owner));
      }
      if (hooks.stop && hooks.stop()) throw Interrupted();
      std::this_thread::sleep_for(kLockPoll);
    }
  }

  /// Fills a new folder by `write`, called with its path, and puts it in place. The lock is held.
  template <typename Write>
  void make(const Write& write) const {
    remove_abandoned();
    const fs::path staging = temporary_sibling(folder_);
    try {
      fs::create_directory(staging);
      write(staging);
      Json files;
      for (const char* name : {kTrainFile, kValidationFile, kTokenizerFile}) {
        if (!fs::exists(staging / name)) continue;
        files[name] = fingerprint_file(staging / name, FileRole::kData);
      }
      write_file_atomically(staging / kEntryFile, dump_json(Json{{"key", key_}, {"files", files}}));
      fs::remove_all(folder_);  // damaged
      fs::rename(staging, folder_);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(staging, ignored);
      throw;
    }
    fsync_folder(root_);
  }

  const fs::path& folder() const { return folder_; }

 private:
  /// What a killed process left. No living one writes this entry, since we hold its lock.
  void remove_abandoned() const {
    std::vector<fs::path> abandoned;
    for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
      const bool of_this_key = entry.path().filename().string().starts_with("." + key_ + ".");
      if (of_this_key && is_temporary_name(entry.path())) abandoned.push_back(entry.path());
    }
    for (const fs::path& path : abandoned) fs::remove_all(path);
  }

  fs::path root_;
  std::string key_;
  fs::path folder_;
};

void write_tokens(const Text& text,
                  const Tokenizer& tokenizer,
                  const fs::path& folder,
                  TextProgress& progress,
                  const TextHooks& hooks) {
  TextReader reader({text.source.text}, Newlines::kKeep);
  progress.watch(reader);
  const int64_t train_end = text.cut >= 0 ? text.cut : text.text_bytes;
  tokenize_text(reader, train_end, tokenizer, folder / kTrainFile);
  if (text.cut >= 0) {
    tokenize_text(reader, text.text_bytes, tokenizer, folder / kValidationFile);
  }
  reader.check_unchanged(text.fingerprint);
  CarriageReturns found = reader.carriage_returns();

  if (text.source.validation_text) {
    TextReader other({*text.source.validation_text}, Newlines::kKeep);
    progress.watch(other);
    tokenize_text(other, text.validation_bytes, tokenizer, folder / kValidationFile);
    other.check_unchanged(text.validation_fingerprint);
    found.crlf += other.carriage_returns().crlf;
    found.lone += other.carriage_returns().lone;
  }
  write_file_atomically(folder / kTokenizerFile, dump_json(tokenizer.to_json()));
  const std::string notice = describe_carriage_returns(found, Newlines::kKeep);
  if (!notice.empty() && hooks.notice) hooks.notice(notice);
}

CharTokenizer vocabulary_of(const Text& text, TextProgress& progress) {
  CharVocabularyBuilder builder;
  std::vector<fs::path> files{text.source.text};
  if (text.source.validation_text) files.push_back(*text.source.validation_text);
  for (const fs::path& file : files) {
    TextReader reader({file}, Newlines::kKeep);
    progress.watch(reader);
    scan_text(reader, &builder);
  }
  return builder.finish();
}

/// `tokenizer` null: the characters of the text.
TokenizedText tokenize(const TextSource& source,
                       const std::shared_ptr<const Tokenizer>& tokenizer,
                       const TextHooks& hooks) try {
  const Text text = examine(source, hooks);
  const fs::path root = cache_folder() / "text";
  fs::create_directories(root);

  const auto finished = [&](TokenizedText result, bool made_now) {
    result.text_fingerprint = text.all_fingerprint();
    result.made_now = made_now;
    return result;
  };
  const Entry from_text(root, entry_key(text, "char"));
  if (tokenizer && tokenizer->kind() == "char") {
    // Usually the model's vocabulary was made from this very text: one entry serves both.
    std::optional<TokenizedText> found = from_text.open(text.has_validation());
    if (found && found->tokenizer->fingerprint() == tokenizer->fingerprint()) {
      return finished(std::move(*found), /*made_now=*/false);
    }
  }
  const Entry entry =
      tokenizer ? Entry(root, entry_key(text, tokenizer->fingerprint())) : from_text;
  if (auto found = entry.open(text.has_validation())) return finished(std::move(*found), false);

  const FileLock lock = entry.lock(hooks);
  if (auto found = entry.open(text.has_validation())) return finished(std::move(*found), false);
  const int64_t bytes = text.text_bytes + text.validation_bytes;
  TextProgress progress(hooks, tokenizer ? bytes : 2 * bytes);
  entry.make([&](const fs::path& folder) {
    if (tokenizer) {
      write_tokens(text, *tokenizer, folder, progress, hooks);
    } else {
      write_tokens(text, vocabulary_of(text, progress), folder, progress, hooks);
    }
  });
  auto made = entry.open(text.has_validation());
  if (!made) {
    throw ResourceError(
        fmt::format("the cache entry '{}' was written but cannot be read back: "
                    "check the disk, or set TRIL_CACHE to another folder",
                    entry.folder().string()));
  }
  return finished(std::move(*made), true);
} catch (const fs::filesystem_error& error) {
  throw ResourceError(
      fmt::format("cannot write '{}' in the cache: {}; set TRIL_CACHE to a folder "
                  "that can be written",
                  error.path1().string(),
                  error.code().message()));
}

}  // namespace

TokenizedText tokenize_cached(const TextSource& source,
                              const std::string& tokenizer,
                              const TextHooks& hooks) {
  if (tokenizer == "char") return tokenize(source, nullptr, hooks);
  return tokenize(source, make_tokenizer(tokenizer), hooks);
}

TokenizedText tokenize_cached(const TextSource& source,
                              std::shared_ptr<const Tokenizer> tokenizer,
                              const TextHooks& hooks) {
  return tokenize(source, tokenizer, hooks);
}

}  // namespace tril
