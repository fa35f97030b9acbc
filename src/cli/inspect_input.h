#pragma once
// What the subcommands of tril inspect have in common: the text to look at, and where results go.

#include <string>
#include <vector>

#include "commands.h"
#include "load_run.h"

namespace tril::cli {

/// --prompt, --prompt-file; neither: the beginning of the run's validation text.
struct TextArgument {
  std::optional<std::string> prompt;
  std::string prompt_file;
};

void add_text_argument(CLI::App& command, TextArgument& argument);

/// The ids of the text, at least one. More than `most` (0: no limit): the last `most`, with a
/// notice. DataError when there is no text, or one that the tokenizer cannot encode.
std::vector<int64_t> text_ids(const TextArgument& argument, const LoadedRun& run, int64_t most);

/// `n` windows of the validation split, evenly spaced, each of `length` tokens (fewer when the
/// split is short: one window of what there is). DataError when there is no validation split.
std::vector<std::vector<int64_t>> validation_windows(const LoadedRun& run,
                                                     int64_t n,
                                                     int64_t length);

/// The bytes of each token.
std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int64_t>& ids);

/// A file to write; what it holds follows from its ending.
struct OutputFile {
  std::string ending;  ///< ".html"
  std::function<std::string()> content;
};

/// Throws ConfigError for a file whose ending is not among `endings`: before any work is done.
void require_known_endings(const std::vector<std::string>& files,
                           const std::vector<std::string>& endings);

/// Writes each file by its ending and says so.
void write_outputs(const std::vector<std::string>& files, const std::vector<OutputFile>& kinds);

}  // namespace tril::cli
