#include "inspect_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/data/training_data.h"
#include "tril/train/progress.h"

namespace tril::cli {
namespace {

constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

std::string read_text(const TextArgument& argument) {
  if (argument.prompt) return *argument.prompt;
  if (argument.prompt_file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  return read_file(argument.prompt_file, FileRole::kData, kMostTextBytes);
}

}  // namespace

void add_text_argument(CLI::App& command, TextArgument& argument) {
  auto* prompt = command.add_option(
      "--prompt", argument.prompt, "The text (default: the beginning of the validation split)");
  command.add_option("--prompt-file", argument.prompt_file, "Read it from a file; - is stdin")
      ->excludes(prompt);
}

std::vector<int64_t> text_ids(const TextArgument& argument, const LoadedRun& run, int64_t most) {
  if (!argument.prompt && argument.prompt_file.empty()) {
    auto ids = validation_windows(run, 1, run.config.model.context_length).front();
    spdlog::info("no text given: the first {} tokens of the validation split", ids.size());
    return ids;
  }
  std::vector<int64_t> ids;
  for (const int32_t id : run.tokenizer->encode(read_text(argument))) ids.push_back(id);
  if (ids.empty()) throw DataError("the text is empty: there is nothing to look at");
  if (most > 0 && static_cast<int64_t>(ids.size()) > most) {
    spdlog::info(
        "the text is longer than the context: kept the last {} of {} tokens", most, ids.size());
    ids.erase(ids.begin(), ids.end() - most);
  }
  return ids;
}

std::vector<std::vector<int64_t>> validation_windows(const LoadedRun& run,
                                                     int64_t n,
                                                     int64_t length) {
  const char* const advice = "Give a text with --prompt TEXT or --prompt-file FILE";
  std::optional<TokenFile> tokens;
  try {
    tokens = open_training_data(run.config.data, run.config.model.context_length, run.tokenizer, {})
                 .validation;
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}. {}", error.what(), advice));
  }
  if (!tokens) throw DataError(fmt::format("this run has no validation text. {}", advice));
  length = std::min(length, tokens->size());
  n = std::min(n, tokens->size() / length);
  std::vector<std::vector<int64_t>> windows;
  for (int64_t i = 0; i < n; ++i) {
    windows.emplace_back(static_cast<size_t>(length));
    tokens->read(i * (tokens->size() / length) / n * length, windows.back());
  }
  return windows;
}

std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const int64_t id : ids) texts.emplace_back(tokenizer.token_bytes(id));
  return texts;
}

void require_known_endings(const std::vector<std::string>& files,
                           const std::vector<std::string>& endings) {
  for (const auto& file : files) {
    const std::string ending = std::filesystem::path(file).extension().string();
    if (std::find(endings.begin(), endings.end(), ending) != endings.end()) continue;
    throw ConfigError(fmt::format("--out {}: the ending says what to write; expected one of {}",
                                  file,
                                  fmt::join(endings, ", ")));
  }
}

void write_outputs(const std::vector<std::string>& files, const std::vector<OutputFile>& kinds) {
  for (const auto& file : files) {
    const std::filesystem::path path(file);
    for (const auto& kind : kinds) {
      if (kind.ending != path.extension().string()) continue;
      const std::string content = kind.content();
      write_file_atomically(path, content);
      spdlog::info("wrote {} ({})", file, format_bytes(static_cast<double>(content.size())));
    }
  }
}

}  // namespace tril::cli
