#pragma once
// GPT-2's published vocabulary, which the project may not contain, for tests that can use it.

#include <filesystem>
#include <optional>

#include "support/shared_data.h"

namespace tril::testing {

/// The folder with encoder.json and vocab.bpe: the shared data's, else the project's data/gpt2.
inline std::optional<std::filesystem::path> gpt2_folder() {
  if (const auto file = shared_data("gpt2/encoder.json")) return file->parent_path();
  const auto fetched = std::filesystem::path(TRIL_SOURCE_DIR) / "data" / "gpt2";
  std::error_code ignored;
  if (std::filesystem::exists(fetched / "encoder.json", ignored)) return fetched;
  return std::nullopt;
}

}  // namespace tril::testing
