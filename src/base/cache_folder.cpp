#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// True when the folder is there (made now if need be) and we can write into it.
bool make_writable_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

fs::path cache_folder() {
  if (const std::string chosen = environment("TRIL_CACHE"); !chosen.empty()) {
    // An explicit choice is never replaced by another place.
    if (make_writable_folder(chosen)) return fs::absolute(chosen);
    throw ConfigError(
        fmt::format("TRIL_CACHE={}: cannot create or write this folder", shown(chosen)));
  }
  // The XDG rule: a relative XDG_CACHE_HOME is ignored.
  if (const fs::path xdg = environment("XDG_CACHE_HOME");
      xdg.is_absolute() && make_writable_folder(xdg / "tril")) {
    return xdg / "tril";
  }
  if (const fs::path home = environment("HOME");
      home.is_absolute() && make_writable_folder(home / ".cache" / "tril")) {
    return home / ".cache" / "tril";
  }
  std::error_code error;
  const fs::path shared = fs::temp_directory_path(error);
  const fs::path folder =
      (error ? fs::path(P_tmpdir) : shared) / fmt::format("tril-cache-{}", ::getuid());
  // Anyone can make this name first: take it only when it is ours and no link.
  ::mkdir(folder.c_str(), 0700);
  struct stat info {};
  if (::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid() &&
      make_writable_folder(folder)) {
    return folder;
  }
  throw ConfigError(fmt::format(
      "no folder for the cache: {} cannot be used; set TRIL_CACHE to a folder you can write to",
      shown(folder)));
}

}  // namespace tril
