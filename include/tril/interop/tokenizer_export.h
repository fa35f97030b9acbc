#pragma once
// Our tokenizers in the form that other programs read. No Torch here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// A file of a Hugging Face folder.
struct TokenizerFile {
  std::string name;
  std::string content;
};

/// tokenizer.json and tokenizer_config.json, as `tokenizers` and `transformers` read them. A byte
/// or character tokenizer is put in their terms, and tril_tokenizer.json keeps it as it is, for the
/// way back. Throws ConfigError for a kind that has no such form.
std::vector<TokenizerFile> huggingface_tokenizer_files(const Tokenizer& tokenizer,
                                                       int64_t context_length);

/// The vocabulary keys of a GGUF file, in llama.cpp's terms: a byte-level BPE is "gpt2"; bytes and
/// characters are "rwkv", whose rule (the longest token that matches) is right for them, and which
/// has no end-of-text token unless one is named.
struct GgufVocabulary {
  std::string model;
  std::string pre;  ///< which pre-tokenizer: "gpt-2"; empty for none
  std::vector<std::string> tokens;
  std::vector<int32_t> types;       ///< 1 normal, 3 control, 5 unused
  std::vector<std::string> merges;  ///< "gpt2" only
  /// Where a BPE vocabulary has none: the byte 0xff, which no text contains.
  std::optional<int64_t> end_of_text;
};

/// `vocab_size`: rows of the embedding; ids beyond the tokenizer's become unused tokens.
GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size);

/// A byte as the printable character that byte-level vocabularies write for it (GPT-2's table), in
/// UTF-8.
std::string byte_level_text(std::string_view bytes);

}  // namespace tril
