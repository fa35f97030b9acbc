#pragma once
// Text given for training is tokenised once, into the user's cache folder.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

/// Tokenises the source, or finds it in the cache. `tokenizer`: a learned one ("char", "bpe:4096";
/// from all of the text, validation part and file included), or for make_data_tokenizer.
///
/// The cache is keyed by the text's content, so the text is hashed at every call (about 10 GB/s
/// once it is in memory; a text of many GB is better prepared once by `tril prepare`). Entries are
/// whole folders that appear in one rename; a damaged one is made anew. When they come to more than
/// text_cache_limit_bytes, those used longest ago are removed. Any number of processes may
/// call this at once: one makes the entry, the others wait for it, with a notice. Throws
/// ConfigError (fraction), DataError (text, tokenizer), ResourceError (disk), Interrupted.
TokenizedText tokenize_cached(const TextSource& source,
                              const std::string& tokenizer,
                              const TextHooks& hooks = {});

/// The same with the tokenizer of a model that exists (resume, evaluate). `learned`: the name under
/// which it may have been learned from this text.
TokenizedText tokenize_cached(const TextSource& source,
                              std::shared_ptr<const Tokenizer> tokenizer,
                              const TextHooks& hooks = {},
                              const std::string& learned = "char");

/// The tokenizer of a learned name (is_learned()) from all these texts. Not cached: reads them
/// through. Throws ConfigError, DataError, Interrupted.
std::shared_ptr<const Tokenizer> learn_tokenizer(const std::string& name,
                                                 const std::vector<std::filesystem::path>& texts,
                                                 const TextHooks& hooks = {});

/// The ids of an HDF5 file (see Hdf5Tokens) as a token file of the cache. The entry is keyed by the
/// file's path, size and time of writing. Throws DataError (also for an id outside the
/// tokenizer's), ResourceError, Interrupted.
TokenFile hdf5_cached(const std::filesystem::path& path,
                      const std::shared_ptr<const Tokenizer>& tokenizer,
                      const TextHooks& hooks = {});

/// How much the cache of tokenised texts may hold: the environment's TRIL_CACHE_GB, else 20 GB;
/// nothing for 0, which means no limit. Throws ConfigError for what is no number.
std::optional<uint64_t> text_cache_limit_bytes();

}  // namespace tril
