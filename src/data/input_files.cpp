#include "tril/data/input_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"
#include "tril/data/byte_source.h"
#include "tril/data/text_reader.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

InputFile::Kind kind_of(const fs::path& path) {
  const std::string extension = extension_inside(path);
  return extension == ".jsonl" || extension == ".ndjson" ? InputFile::Kind::kJsonLines
                                                         : InputFile::Kind::kText;
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with('.')) {  // what version control and editors keep
      entry.disable_recursion_pending();
      continue;
    }
    const bool is_text =
        extension_inside(path) == ".txt" || kind_of(path) == InputFile::Kind::kJsonLines;
    std::error_code ignored;
    if (is_text && entry->is_regular_file(ignored)) files.push_back(path);
  }
  if (error) {
    throw DataError(fmt::format("cannot read the folder '{}': {}", shown(folder), error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos;
}

std::vector<fs::path> files_of_pattern(const std::string& pattern) {
  std::vector<fs::path> files;
  ::glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) {
    std::error_code ignored;
    if (!fs::is_directory(found.gl_pathv[i], ignored)) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  std::sort(files.begin(), files.end());  // by bytes: no locale has a say
  return files;
}

std::vector<InputFile> find_input_files(
    const std::vector<fs::path>& inputs,
    const std::function<void(const std::string& message)>& notice) {
  std::vector<InputFile> files;
  int64_t n_empty = 0;
  fs::path an_empty;
  const auto add_found = [&](const std::vector<fs::path>& found) {
    bool any = false;
    for (const fs::path& path : found) {
      std::error_code ignored;
      if (fs::file_size(path, ignored) == 0 && !ignored) {
        ++n_empty;
        an_empty = path;
        continue;
      }
      checked_text_file_size(path);
      files.push_back({path, kind_of(path)});
      any = true;
    }
    return any;
  };
  for (const fs::path& input : inputs) {
    std::error_code ignored;
    if (fs::is_directory(input, ignored)) {
      if (!add_found(files_below(input))) {
        throw DataError(fmt::format(
            "the folder '{}' holds no text: expected .txt or .jsonl files in it (also .gz, .zst)",
            shown(input)));
      }
    } else if (is_pattern(input.string()) && !fs::exists(input, ignored)) {
      if (!add_found(files_of_pattern(input.string()))) {
        throw DataError(fmt::format("no text file matches the pattern '{}'", shown(input)));
      }
    } else {
      checked_text_file_size(input);
      files.push_back({input, kind_of(input)});
    }
  }
  if (!notice) return files;
  if (n_empty > 0) {
    notice(fmt::format("{} empty file{} left out, such as '{}'",
                       n_empty,
                       n_empty == 1 ? " is" : "s are",
                       shown(an_empty)));
  }
  std::set<fs::path> seen;
  for (const InputFile& file : files) {
    if (seen.insert(file.path.lexically_normal()).second) continue;
    notice(fmt::format("'{}' is given more than once, and read as often", shown(file.path)));
    break;
  }
  return files;
}

}  // namespace tril
