#pragma once
// Which files the inputs of `tril prepare` stand for.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tril {

struct InputFile {
  enum class Kind { kText, kJsonLines };
  std::filesystem::path path;
  Kind kind = Kind::kText;
};

/// Each input in turn: a file; a folder, which stands for all .txt and .jsonl files below it (also
/// .gz, .zst), hidden ones aside; or a pattern with *, ? or [...], when there is no file of that
/// name. Folders and patterns give their files sorted by path, and pass over empty ones with a
/// `notice`. What ends in .jsonl (.ndjson) is JSON lines, everything else text.
/// Throws DataError, naming the input: nothing found, not a regular file, empty, not readable.
std::vector<InputFile> find_input_files(
    const std::vector<std::filesystem::path>& inputs,
    const std::function<void(const std::string& message)>& notice = {});

/// Has the path a pattern's character?
bool is_pattern(const std::string& path);

/// The files a pattern stands for, sorted by path; folders left out.
std::vector<std::filesystem::path> files_of_pattern(const std::string& pattern);

}  // namespace tril
