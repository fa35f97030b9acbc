#pragma once
// Text given for training is tokenised once, into the user's cache folder.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tril/base/token_file.h"
#include "tril/data/text_reader.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// A text and what of it is kept for validation: its end, or another file, or nothing.
struct TextSource {
  std::filesystem::path text = {};
  std::optional<std::filesystem::path> validation_text =
      {};                                        ///< then all of `text` is for training
  double validation_fraction = 0;                ///< of the bytes; moved on to a character's start
  std::optional<int64_t> validation_begin = {};  ///< exact byte offset, instead of the fraction
};

struct TokenizedText {
  TokenFile train;
  std::optional<TokenFile> validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string text_fingerprint;  ///< of the text, or of both texts
  bool made_now = false;         ///< false: it was in the cache
};

/// Tokenises the source, or finds it in the cache. `tokenizer`: "char" (the vocabulary of all of
/// the text, validation part and file included), "byte" or the path of a tokenizer.json.
///
/// The cache is keyed by the text's content, so the text is hashed at every call (about 10 GB/s
/// once it is in memory; a text of many GB is better prepared once by `tril prepare`). Entries are
/// whole folders that appear in one rename; a damaged one is made anew. Any number of processes may
/// call this at once: one makes the entry, the others wait for it, with a notice. Throws
/// ConfigError (fraction), DataError (text, tokenizer), ResourceError (disk), Interrupted.
TokenizedText tokenize_cached(const TextSource& source,
                              const std::string& tokenizer,
                              const TextHooks& hooks = {});

/// The same with the tokenizer of a model that exists (resume, evaluate).
TokenizedText tokenize_cached(const TextSource& source,
                              std::shared_ptr<const Tokenizer> tokenizer,
                              const TextHooks& hooks = {});

}  // namespace tril
