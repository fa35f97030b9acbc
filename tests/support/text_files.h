#pragma once
// Small helpers of tests that write texts and read them back.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/token_file.h"

namespace tril::testing {

inline std::filesystem::path write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  return path;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string repeat(std::string_view text, int n_times) {
  std::string out;
  out.reserve(text.size() * static_cast<size_t>(n_times));
  for (int i = 0; i < n_times; ++i) out += text;
  return out;
}

/// Where two long texts differ first, or -1: a failing check then prints a number, not megabytes.
inline int64_t first_difference(std::string_view a, std::string_view b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  if (at == a.end() && a.size() == b.size()) return -1;
  return at - a.begin();
}

inline std::vector<int64_t> all_ids(const TokenFile& file) {
  std::vector<int64_t> ids(static_cast<size_t>(file.size()));
  file.read(0, ids);
  return ids;
}

/// Every file and folder below `folder`, to see what is left behind.
inline size_t count_entries(const std::filesystem::path& folder) {
  const std::filesystem::recursive_directory_iterator entries(folder);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace tril::testing
