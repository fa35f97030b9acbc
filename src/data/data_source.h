#pragma once
// What a path of `data.train` or `data.validation` names.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tril/base/token_file.h"
#include "tril/config/data_config.h"
#include "tril/data/text_reader.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

struct DataSource {
  enum class Kind { kText, kTril, kLlmc, kUint16, kHdf5 };
  Kind kind = Kind::kText;
  std::string name = {};                          ///< as the config has it
  std::vector<std::filesystem::path> files = {};  ///< of token kinds: one stream, in this order

  bool is_foreign() const { return kind != Kind::kText && kind != Kind::kTril; }
  std::filesystem::path folder() const { return files.front().parent_path(); }
};

/// Looks at the path, and with kAuto at the files' first bytes. A pattern stands for the token
/// files it matches; a folder for its PART.tokens or PART_*.tokens, as `tril prepare` writes them
/// (`part`: "train" or "validation"). Throws DataError.
DataSource find_data_source(const std::string& path, DataFormat format, const char* part);

/// Opens token files (not text) as one stream; the tokenizer must be theirs. Null, of llm.c shards
/// and 2-byte ids: any id is taken. Throws DataError.
TokenFile open_tokens(const DataSource& source,
                      const std::shared_ptr<const Tokenizer>& tokenizer,
                      const TextHooks& hooks);

/// The token files of a part in a folder of `tril prepare`, sorted; none when there are none.
std::vector<std::filesystem::path> prepared_files(const std::filesystem::path& folder,
                                                  const std::string& part);

}  // namespace tril
