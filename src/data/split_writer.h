#pragma once
// Token files of a training and a validation part, in shards if wanted.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tril/base/token_file.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Writes "NAME.tokens", or with `shard_tokens` > 0 "NAME_00000.tokens", "NAME_00001.tokens", ...,
/// each of so many ids, the last one of the rest. Files are whole or not there.
class ShardWriter {
 public:
  ShardWriter(std::filesystem::path folder,
              std::string name,
              const Tokenizer& tokenizer,
              int64_t shard_tokens);

  /// Ids that stand for `text_bytes` bytes of text.
  void append(std::span<const int32_t> ids, int64_t text_bytes);
  /// An id that stands for no text.
  void append_end_of_text(int32_t id);
  /// Closes the last file and numbers all shards.
  PreparedSplit finish();

 private:
  void open_next();

  std::filesystem::path folder_;
  std::string name_;
  const Tokenizer& tokenizer_;
  std::string fingerprint_;
  int64_t shard_tokens_;
  std::unique_ptr<TokenFileWriter> file_;
  std::vector<std::filesystem::path> paths_;
  PreparedSplit written_;
};

}  // namespace tril
