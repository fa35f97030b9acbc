#pragma once
// Texts that the project may not contain, for tests that can use them.

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace tril::testing {

/// A file of the shared data folder: $TRIL_SHARED/data, else ../shared/data beside the project's
/// folder. Nothing when it is absent.
inline std::optional<std::filesystem::path> shared_data(const std::string& name) {
  namespace fs = std::filesystem;
  const char* chosen = std::getenv("TRIL_SHARED");
  const fs::path project = TRIL_SOURCE_DIR;  // not __FILE__, which ccache may make relative
  const fs::path shared = chosen != nullptr ? fs::path(chosen) : project / ".." / "shared";
  std::error_code ignored;
  const fs::path path = shared / "data" / name;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  return path;
}

}  // namespace tril::testing
