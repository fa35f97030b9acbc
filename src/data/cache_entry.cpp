#include "cache_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"
#include "tril/data/prepare.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr const char* kEntryFile = "entry.json";
constexpr auto kLockPoll = std::chrono::milliseconds(20);
constexpr double kDefaultLimitGb = 20;

bool is_key(const std::string& name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct Used {
  std::string key;
  fs::file_time_type last_use;
  uint64_t bytes = 0;
};

/// All entries below `root`, the one used longest ago first.
std::vector<Used> entries_in(const fs::path& root) {
  std::vector<Used> entries;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!is_key(name) || !entry.is_directory(ignored)) continue;
    Used used{.key = name, .last_use = fs::last_write_time(entry.path() / kEntryFile, ignored)};
    for (const fs::directory_entry& file : fs::directory_iterator(entry.path(), ignored)) {
      std::error_code gone;
      const uint64_t bytes = file.file_size(gone);
      if (!gone) used.bytes += bytes;
    }
    entries.push_back(std::move(used));
  }
  std::sort(entries.begin(), entries.end(), [](const Used& a, const Used& b) {
    return a.last_use < b.last_use;
  });
  return entries;
}

}  // namespace

fs::path make_cache_root() {
  fs::path root = cache_folder() / "text";
  fs::create_directories(root);
  return root;
}

void throw_cache_error(const fs::filesystem_error& error) {
  throw ResourceError(
      fmt::format("cannot write '{}' in the cache: {}; set TRIL_CACHE to a folder "
                  "that can be written",
                  error.path1().string(),
                  error.code().message()));
}

std::optional<uint64_t> text_cache_limit_bytes() {
  const char* text = std::getenv("TRIL_CACHE_GB");
  double gb = kDefaultLimitGb;
  if (text != nullptr && *text != '\0') {
    const std::string given = text;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), gb);
    if (error != std::errc() || end != given.data() + given.size() || !(gb >= 0) || gb > 1e9) {
      throw ConfigError(
          fmt::format("TRIL_CACHE_GB={}: expected a number of gigabytes (0: no limit)",
                      escape_for_message(given)));
    }
  }
  if (gb == 0) return std::nullopt;
  return static_cast<uint64_t>(gb * 1e9);
}

CacheEntry::CacheEntry(fs::path root, std::string key)
    : root_(std::move(root)), key_(std::move(key)), folder_(root_ / key_) {}

std::optional<TokenizedText> CacheEntry::open(bool has_validation) const {
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
    fs::last_write_time(folder_ / kEntryFile, fs::file_time_type::clock::now(), error);
    return text;
  } catch (const Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

TokenizedText CacheEntry::reopen(bool has_validation) const {
  if (auto made = open(has_validation)) return std::move(*made);
  throw ResourceError(
      fmt::format("the cache entry '{}' was written but cannot be read back: "
                  "check the disk, or set TRIL_CACHE to another folder",
                  folder_.string()));
}

FileLock CacheEntry::lock(const TextHooks& hooks, const std::string& other_is_doing) const {
  const fs::path path = root_ / (key_ + ".lock");
  for (bool told = false;; told = true) {
    std::string owner;
    if (std::optional<FileLock> lock = FileLock::try_acquire(path, &owner)) {
      return std::move(*lock);
    }
    if (!told && hooks.notice) {
      hooks.notice(fmt::format("waiting for another process ({}), {}", owner, other_is_doing));
    }
    if (hooks.stop && hooks.stop()) throw Interrupted();
    std::this_thread::sleep_for(kLockPoll);
  }
}

void CacheEntry::make(const std::function<void(const fs::path& folder)>& write) const {
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
  prune();
}

/// What a killed process left. No living one writes this entry, since we hold its lock.
void CacheEntry::remove_abandoned() const {
  std::vector<fs::path> abandoned;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
    const bool of_this_key = entry.path().filename().string().starts_with("." + key_ + ".");
    if (of_this_key && is_temporary_name(entry.path())) abandoned.push_back(entry.path());
  }
  for (const fs::path& path : abandoned) fs::remove_all(path);
}

/// The same of other entries whose makers are dead: nobody holds their locks.
void CacheEntry::remove_abandoned_of_others() const {
  std::error_code ignored;
  std::vector<fs::path> temporary;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_, ignored)) {
    if (is_temporary_name(entry.path())) temporary.push_back(entry.path());
  }
  for (const fs::path& path : temporary) {
    const std::string key = path.filename().string().substr(1, 32);
    if (!is_key(key) || key == key_) continue;
    if (FileLock::try_acquire(root_ / (key + ".lock"))) fs::remove_all(path, ignored);
  }
}

/// Removes the entries used longest ago, as many as are too much; never the one just made, nor one
/// that is being made. Who has a removed one open keeps it: the files stay until they are closed.
void CacheEntry::prune() const {
  const std::optional<uint64_t> limit = text_cache_limit_bytes();
  if (!limit) return;
  const std::vector<Used> entries = entries_in(root_);
  uint64_t bytes = 0;
  for (const Used& entry : entries) bytes += entry.bytes;
  remove_abandoned_of_others();
  for (const Used& entry : entries) {
    if (bytes <= *limit) return;
    if (entry.key == key_) continue;
    const fs::path lock_path = root_ / (entry.key + ".lock");
    std::error_code ignored;
    const std::optional<FileLock> lock = FileLock::try_acquire(lock_path);
    if (!lock) continue;
    // In one step, so that nobody sees half an entry.
    const fs::path doomed = temporary_sibling(root_ / entry.key);
    fs::rename(root_ / entry.key, doomed, ignored);
    fs::remove_all(doomed, ignored);
    fs::remove(lock_path, ignored);
    bytes -= entry.bytes;
  }
}

}  // namespace tril
