// Where GPT-2's vocabulary is looked for; the project may not contain it.

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// The fingerprint of the published files (their SHA-256 is in scripts/fetch_gpt2_vocab.sh).
constexpr const char* kGpt2Fingerprint = "f9d6defb9ce6ce9e2496398914da1595";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The vocabulary in this folder, in any of its forms; nothing when there is none.
std::optional<BpeVocabulary> read_folder(const fs::path& folder) {
  for (const auto& [encoder, merges] :
       {std::pair("encoder.json", "vocab.bpe"), std::pair("vocab.json", "merges.txt")}) {
    if (is_file(folder / encoder) && is_file(folder / merges)) {
      return bpe_from_gpt2_files(folder / encoder, folder / merges);
    }
  }
  const fs::path json = folder / "tokenizer.json";
  if (is_file(json)) {
    return bpe_from_huggingface_json(read_json_file(json, FileRole::kData), json.string());
  }
  for (const char* name : {"r50k_base.tiktoken", "gpt2.tiktoken"}) {
    if (is_file(folder / name)) return bpe_from_tiktoken_file(folder / name);
  }
  return std::nullopt;
}

/// build/release/tril -> data/gpt2, when the program stands where it was built.
fs::path folder_beside_program() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return program.parent_path().parent_path().parent_path() / "data" / "gpt2";
}

std::vector<fs::path> places(const fs::path& chosen) {
  if (!chosen.empty()) return {chosen};
  std::vector<fs::path> folders;
  if (const char* set = std::getenv("TRIL_GPT2_DIR"); set != nullptr && *set != '\0') {
    folders.emplace_back(set);
  }
  folders.push_back(cache_folder() / "gpt2");
  folders.push_back(fs::path("data") / "gpt2");
  if (const fs::path beside = folder_beside_program(); !beside.empty()) folders.push_back(beside);
  return folders;
}

}  // namespace

std::unique_ptr<Tokenizer> load_gpt2_tokenizer(const fs::path& folder) {
  std::string searched;
  for (const fs::path& place : places(folder)) {
    std::optional<BpeVocabulary> vocabulary = read_folder(place);
    if (!vocabulary) {
      searched += fmt::format("{}'{}'", searched.empty() ? "" : ", ", place.string());
      continue;
    }
    auto tokenizer = std::make_unique<BpeTokenizer>(
        std::move(*vocabulary), fmt::format("the vocabulary in '{}'", place.string()));
    if (tokenizer->fingerprint() != kGpt2Fingerprint) {
      throw DataError(fmt::format(
          "the vocabulary in '{}' is not GPT-2's (it has {} ids, expected the published 50257): "
          "name its tokenizer.json instead of \"gpt2\", or run scripts/fetch_gpt2_vocab.sh",
          place.string(),
          tokenizer->vocab_size()));
    }
    return tokenizer;
  }
  throw DataError(fmt::format(
      "GPT-2's vocabulary is not there: looked for encoder.json and vocab.bpe in {}. Run "
      "scripts/fetch_gpt2_vocab.sh once{}",
      searched,
      folder.empty() ? ", or set TRIL_GPT2_DIR to a folder that has them" : ""));
}

}  // namespace tril
