#pragma once
// The parts of `tril tokenizer` that stand in files of their own.

#include <memory>
#include <string>

#include "commands.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril::cli {

/// What encode, decode, view, info and bench are given.
struct TokenizerArguments {
  std::string tokenizer;
  std::string vocab;  ///< folder for "gpt2"
  std::string input = "-";
  bool json = false;
  bool pieces = false;
  bool allow_special = false;
  std::string html;
  std::string color = "auto";

  SpecialText special_text() const {
    return allow_special ? SpecialText::kBecomesId : SpecialText::kIsText;
  }
};

/// The tokenizer that --tokenizer and --vocab name. Throws ConfigError for a learned one, DataError
/// otherwise.
std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerArguments& args);

CommandEntry add_tokenizer_train_command(CLI::App& parent, CommonOptions& common);
CommandEntry add_tokenizer_bench_command(CLI::App& parent, CommonOptions& common);

}  // namespace tril::cli
