#pragma once
// Files to token files, on all cores. The ids depend on the files, the rules and the tokenizer
// alone: not on the number of threads, nor on how the text was cut for them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "document_reader.h"
#include "tril/data/prepare.h"
#include "tril/distributed/block_exchange.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {

/// Which documents are for validation.
struct SplitRule {
  enum class Kind {
    kNone,
    kShare,     ///< those that begin at byte `cut` of all text or later
    kDocument,  ///< one in each run of about 1 / fraction documents, in a fixed but random place
  };
  Kind kind = Kind::kNone;
  double fraction = 0;
  int64_t cut = 0;

  bool for_validation(int64_t document, int64_t bytes_before) const;
};

struct TokenizeJob {
  std::vector<InputFile> files = {};
  DocumentRules rules = {};
  SplitRule split = {};  ///< kShare of a running text cuts it at exactly this byte
  SpecialText special = SpecialText::kIsText;
  int64_t shard_tokens = 0;
  int64_t threads = 0;
  std::string train_name = "train";  ///< of the files written
  /// Other processes that do the same job; each encodes its share, the first one writes.
  BlockExchange* exchange = nullptr;
};

struct TokenizedParts {
  PreparedSplit train;
  std::optional<PreparedSplit> validation;  ///< there unless the split is kNone
  CarriageReturns carriage_returns;
  std::string fingerprint;  ///< of the text
};

/// Writes TRAIN_NAME.tokens and validation.tokens (or shards of them) into `folder`, also empty
/// ones; not in a process that only hands its blocks over. Throws DataError (EncodeError names file
/// and offset), ResourceError, Interrupted.
TokenizedParts tokenize_documents(const TokenizeJob& job,
                                  const Tokenizer& tokenizer,
                                  const std::filesystem::path& folder,
                                  TextProgress& progress);

struct ScannedText {
  int64_t text_bytes = 0;
  int64_t documents = 0;
  std::string fingerprint;
};

/// Reads everything once; the texts go to `learner`, unless that is null.
ScannedText scan_documents(const TokenizeJob& job,
                           TokenizerLearner* learner,
                           TextProgress& progress);

/// Is the number of text bytes that of the bytes on the disk?
bool knows_text_bytes(const TokenizeJob& job);

}  // namespace tril
