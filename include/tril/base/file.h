#pragma once
// Files: read whole, map, write atomically, lock. All errors are tril errors that name the path.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tril {

/// What kind of error a failed read is: a config (2), data (3) or a checkpoint (4).
enum class FileRole { kConfig, kData, kCheckpoint };

/// Throws the role's error with this message.
[[noreturn]] void throw_file_error(FileRole role, const std::string& message);

/// A path as messages show it: control characters escaped, cut at 4096 bytes, an empty one named.
std::string shown(const std::filesystem::path& path);

/// Reads a regular file whole. A missing file, folder, unreadable file, special file (fifo, device)
/// or one over `max_bytes` is the role's error and says which of these it was.
std::string read_file(const std::filesystem::path& path,
                      FileRole role,
                      uint64_t max_bytes = uint64_t{1} << 32);

/// A read-only memory map of a regular file (an empty file maps to an empty span). Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const std::filesystem::path& path, FileRole role);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// Asks the system to read these bytes in soon (madvise), without waiting. Only a hint.
  void prefetch(size_t offset, size_t n_bytes) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::filesystem::path path_;
};

/// A file being written under its final name's folder; unfinished files never stay.
/// No space or an I/O failure is a ResourceError that names the path.
class FileWriter {
 public:
  /// Opens (creates, truncates) `path` itself: for files inside a folder that is renamed as a
  /// whole.
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();  // closes; a file not finished is removed
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t n_bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Rewrites bytes already written (a header whose counts are known at the end).
  void write_at(uint64_t offset, const void* data, size_t n_bytes);
  uint64_t bytes_written() const { return bytes_written_; }
  /// Flushes to the disk (fsync) and closes.
  void finish();
  /// finish(), then renames to `final_path` and fsyncs its folder.
  void finish_as(const std::filesystem::path& final_path);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_written_ = 0;
  std::string buffer_;
};

/// Replaces `path` by `bytes` in one step: a reader sees the old content or the new, never a part.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Asks the system to forget what it holds of a file in memory, so that the next read comes from
/// the disk. Without effect on file systems that live in memory.
void drop_from_page_cache(const std::filesystem::path& path);

/// Overwrites bytes inside an existing file and fsyncs it. ResourceError.
void overwrite_in_file(const std::filesystem::path& path,
                       uint64_t offset,
                       const void* data,
                       size_t n_bytes);

/// Makes renames inside `folder` durable.
void fsync_folder(const std::filesystem::path& folder);

/// A name beside `path` that no other process uses: ".<name>.tmp-<pid>-<counter>".
std::filesystem::path temporary_sibling(const std::filesystem::path& path);

/// True for names made by temporary_sibling.
bool is_temporary_name(const std::filesystem::path& path);

/// An exclusive advisory lock on a file (flock), which holds its owner's pid and host for messages.
/// The file stays; the lock ends with the process, however it ends.
class FileLock {
 public:
  /// Takes the lock at once or returns nothing; `owner`, if given, then receives who holds it.
  static std::optional<FileLock> try_acquire(const std::filesystem::path& path,
                                             std::string* owner = nullptr);
  /// Waits for the lock; `on_wait` is called once, before waiting.
  static FileLock acquire(const std::filesystem::path& path,
                          const std::function<void(const std::string& owner)>& on_wait = {});
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// The user's cache folder for tril: TRIL_CACHE, else XDG_CACHE_HOME/tril, else ~/.cache/tril,
/// else a folder of the system's temporary one. Created when missing.
std::filesystem::path cache_folder();

}  // namespace tril
