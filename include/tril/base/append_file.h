#pragma once
// A file that grows by whole lines, such as a log: every line is written at once, and a failure is
// reported once and then lived with, since a log must never stop what it logs.

#include <filesystem>
#include <string>
#include <string_view>

namespace tril {

class AppendFile {
 public:
  /// Opens for appending, creating the file. Never waits for a fifo and never follows a link. A
  /// failure is kept for error().
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends bytes; false when they could not all be written. A part that was written is taken back
  /// where the file system allows it, so that lines stay whole; the next call tries again.
  bool write(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }
  /// Why the last call (or the opening) failed; empty: it did not.
  const std::string& error() const { return error_; }

 private:
  void open();

  std::filesystem::path path_;
  int fd_ = -1;
  std::string error_;
};

}  // namespace tril
