#pragma once
// From text files to token files. See DESIGN §5 and `tril prepare`.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/token_file.h"
#include "tril/data/text_reader.h"
#include "tril/distributed/block_exchange.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

struct PreparedSplit {
  int64_t tokens = 0;
  int64_t text_bytes = 0;
  int64_t documents = 0;
  int64_t files = 0;  ///< token files: 1, or the number of shards
};

/// Where the validation part begins: floor(text_bytes * (1 - fraction)).
/// Throws ConfigError unless 0 <= fraction < 1.
int64_t validation_begin(int64_t text_bytes, double fraction);

/// Which part is for validation.
enum class SplitBy {
  kAuto,      ///< kShare of a running text, kDocument of documents
  kShare,     ///< the end: so much of the bytes (of documents: whole ones)
  kDocument,  ///< single documents, spread evenly over all
};

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs = {};  ///< see find_input_files
  std::string tokenizer = "char";                  ///< is_learned(), or for make_data_tokenizer
  std::filesystem::path vocab = {};  ///< of "gpt2": where its files are; empty: the usual places
  SpecialText special = SpecialText::kIsText;  ///< "<|endoftext|>" and the like in the text
  double validation_fraction = 0.1;            ///< 0: no validation part
  std::filesystem::path out = {};              ///< a folder, made when missing
  bool overwrite = false;                      ///< `out` may hold files; ours are replaced
  Newlines newlines = Newlines::kKeep;
  SplitBy split = SplitBy::kAuto;
  std::string field = "text";  ///< of JSON lines: the key of the text
  std::string separator = {};  ///< stands between the documents of a text file; "": none
  int64_t shard_tokens = 0;    ///< ids per token file; 0: one file
  int64_t threads = 0;         ///< 0: one per core; the result is the same
};

struct PrepareResult {
  PreparedSplit train;
  std::optional<PreparedSplit> validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  CarriageReturns carriage_returns;  ///< in the input files
  int64_t input_files = 0;
  int64_t input_bytes = 0;    ///< on the disk
  bool running_text = false;  ///< no documents: one text
};

/// Writes train.tokens, validation.tokens (with a fraction > 0; both in shards when asked for) and
/// tokenizer.json into `options.out`.
///
/// The inputs are one running text when they are plain text without a separator, and there is one
/// file or the tokenizer has no end-of-text (or else each text file is a document); no id is added
/// to it. Otherwise they are documents: each line of a .jsonl file, each part between separators,
/// each text file. After every document stands the tokenizer's end-of-text, or, where it has none,
/// a newline after each JSON line and separated part.
///
/// Finished files appear together at the end, tokenizer.json last; on any error, interruption or
/// kill, no half-written file is left that could be taken for a whole one. Memory does not grow
/// with the input. CR line ends are kept unless asked otherwise, and named in one notice.
/// Throws ConfigError (options, `out` in use), DataError (inputs, tokenizer, an empty part),
/// ResourceError (disk), Interrupted.
///
/// With `exchange` several processes, called alike, share the work; the result is the same. The
/// first one writes and has the counts. Also throws PeerError then.
PrepareResult prepare(const PrepareOptions& options,
                      const TextHooks& hooks = {},
                      BlockExchange* exchange = nullptr);

/// The notice about CR line ends, or an empty text if there are none.
std::string describe_carriage_returns(const CarriageReturns& found, Newlines newlines);

/// What a token file holds.
struct TokenFileSummary {
  TokenFileHeader header;
  int64_t files = 1;
  int64_t distinct_ids = 0;
  int64_t highest_id = -1;          ///< -1: no ids
  double text_bytes_per_token = 0;  ///< 0: unknown
  /// Documents and the ids of the longest one, end-of-text aside; -1: the ids have no end-of-text.
  int64_t documents = -1;
  int64_t longest_document = -1;
  std::string content_fingerprint;  ///< of the whole file, or over those of all files
};

/// Reads token files through, in pieces. Throws DataError for an id outside the vocabulary (with
/// its place).
TokenFileSummary describe_tokens(const TokenFile& tokens);

/// The same of one token file of tril. Throws DataError also for a file that is none.
TokenFileSummary describe_token_file(const std::filesystem::path& path);

/// Opens a token file that must have been made with `expected`. Throws DataError: another
/// tokenizer, or a header that does not fit it.
TokenFile open_token_file_checked(const std::filesystem::path& path, const Tokenizer& expected);

}  // namespace tril
