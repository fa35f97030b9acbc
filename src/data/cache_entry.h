#pragma once
// One folder of the cache of tokenised texts: token files, tokenizer.json, and entry.json, which
// names the key and the fingerprint of every other file.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tril/base/file.h"
#include "tril/data/text_cache.h"

namespace tril {

inline constexpr const char* kTrainFile = "train.tokens";
inline constexpr const char* kValidationFile = "validation.tokens";
inline constexpr const char* kTokenizerFile = "tokenizer.json";

/// The folder of all entries, made when missing.
std::filesystem::path make_cache_root();

/// What the file system said, as an error that says what to try.
[[noreturn]] void throw_cache_error(const std::filesystem::filesystem_error& error);

class CacheEntry {
 public:
  CacheEntry(std::filesystem::path root, std::string key);

  /// The content, or nothing when the entry is missing, incomplete, damaged or foreign. Notes that
  /// the entry was used.
  std::optional<TokenizedText> open(bool has_validation) const;
  /// open() of an entry that was just made. Throws ResourceError when it cannot be read.
  TokenizedText reopen(bool has_validation) const;
  /// Only one process at a time makes an entry; waiting is a notice, with what the other is doing.
  FileLock lock(const TextHooks& hooks, const std::string& other_is_doing) const;
  /// Fills a new folder by `write`, called with its path, and puts it in place; then removes what
  /// is too much (see text_cache_limit_bytes). The lock is held.
  void make(const std::function<void(const std::filesystem::path& folder)>& write) const;

 private:
  void remove_abandoned() const;
  void remove_abandoned_of_others() const;
  void prune() const;

  std::filesystem::path root_;
  std::string key_;
  std::filesystem::path folder_;
};

}  // namespace tril
