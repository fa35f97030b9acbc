#pragma once
// The data of a run, opened: what `data.*` of a config names.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/token_file.h"
#include "tril/config/data_config.h"
#include "tril/data/text_reader.h"
#include "tril/data/window_sampler.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

struct TrainingData {
  TokenFile train;  ///< all training files as one stream
  /// The files of a weighted list, as parts of `train`; empty: all of it is one.
  std::vector<SamplerPart> train_parts;
  std::optional<TokenFile> validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string train_fingerprint;       ///< changes with the tokens that training sees
  std::string validation_fingerprint;  ///< empty without validation
  /// Bundled corpus only: the exact -log P of the validation split, in nats, over the very tokens
  /// that a whole evaluation scores. No honest model's total is lower.
  std::optional<double> validation_floor_nats;

  /// The order of the training windows.
  WindowSampler windows(Sampling sampling, int64_t context_length, uint64_t seed) const;
};

/// Opens (makes, tokenises, finds in the cache) the training and validation data. `tokenizer`, when
/// given (resume), is used instead of the config's. Throws DataError: missing file, foreign
/// tokenizer, split too short for one window of `context_length` + 1 tokens.
TrainingData open_training_data(const DataConfig& config,
                                int64_t context_length,
                                std::shared_ptr<const Tokenizer> tokenizer,
                                const TextHooks& hooks);

/// A text to score with a model's tokenizer: a token file of any kind, a pattern of them, a folder
/// of `tril prepare` (its validation part), or a text (tokenised through the cache). Throws
/// DataError.
TokenFile open_text_or_tokens(const std::filesystem::path& path,
                              const std::shared_ptr<const Tokenizer>& tokenizer,
                              DataFormat format = DataFormat::kAuto,
                              const TextHooks& hooks = {});

/// Token files as they are, to look into: a file, a pattern, a prepared folder (its training part).
/// `tokenizer` says what foreign ids mean; "char" (the default of commands) means that nobody
/// knows, and then every id that fits is taken. Throws DataError.
TokenFile open_tokens_to_describe(const std::string& path,
                                  DataFormat format,
                                  const std::string& tokenizer);

/// The bundled corpus as a text file in the user's cache, with its side file; made when missing.
struct TalesFiles {
  std::filesystem::path text;
  std::filesystem::path marks;
};
TalesFiles cached_tales(int64_t min_bytes, uint64_t seed);

}  // namespace tril
