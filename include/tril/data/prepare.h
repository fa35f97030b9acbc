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
#include "tril/tokenizer/char_tokenizer.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

struct PreparedSplit {
  int64_t tokens = 0;
  int64_t text_bytes = 0;
};

/// Reads the text to its end; its characters go to `vocabulary`, unless that is null.
/// Throws DataError (EncodeError names file and offset).
void scan_text(TextReader& reader, CharVocabularyBuilder* vocabulary);

/// Tokenises the text of `reader` from where it stands up to byte `end` of the text, and then up to
/// the end of the character that byte `end` cuts, into the token file `out` (atomically).
/// Throws DataError (EncodeError names file and offset); `out` is then as before.
PreparedSplit tokenize_text(TextReader& reader,
                            int64_t end,
                            const Tokenizer& tokenizer,
                            const std::filesystem::path& out);

/// Where the validation part begins: floor(text_bytes * (1 - fraction)).
/// Throws ConfigError unless 0 <= fraction < 1.
int64_t validation_begin(int64_t text_bytes, double fraction);

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs = {};  ///< one text, in this order
  std::string tokenizer = "char";    ///< "char", "byte" or the path of a tokenizer.json
  double validation_fraction = 0.1;  ///< the end of the text; 0: no validation part
  std::filesystem::path out = {};    ///< a folder, made when missing
  bool overwrite = false;            ///< `out` may hold files; ours are replaced
  Newlines newlines = Newlines::kKeep;
};

struct PrepareResult {
  PreparedSplit train;
  std::optional<PreparedSplit> validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  CarriageReturns carriage_returns;  ///< in the input files
};

/// Writes train.tokens, validation.tokens (with a fraction > 0) and tokenizer.json into
/// `options.out`. Finished files appear together at the end, tokenizer.json last; on any error,
/// interruption or kill, no half-written file is left that could be taken for a whole one.
/// CR line ends are kept unless asked otherwise, and named in one notice.
/// Throws ConfigError (fraction, `out` in use), DataError (inputs, tokenizer), ResourceError
/// (disk), Interrupted.
PrepareResult prepare(const PrepareOptions& options, const TextHooks& hooks = {});

/// The notice about CR line ends, or an empty text if there are none.
std::string describe_carriage_returns(const CarriageReturns& found, Newlines newlines);

/// What a token file holds.
struct TokenFileSummary {
  TokenFileHeader header;
  int64_t distinct_ids = 0;
  int64_t highest_id = -1;          ///< -1: no ids
  double text_bytes_per_token = 0;  ///< 0: unknown
  std::string content_fingerprint;  ///< of the whole file
};

/// Reads a token file through, in pieces. Throws DataError for a file that is none, or that holds
/// an id outside its vocabulary (with its position).
TokenFileSummary describe_token_file(const std::filesystem::path& path);

/// Opens a token file that must have been made with `expected`. Throws DataError: another
/// tokenizer, or a header that does not fit it.
TokenFile open_token_file_checked(const std::filesystem::path& path, const Tokenizer& expected);

}  // namespace tril
