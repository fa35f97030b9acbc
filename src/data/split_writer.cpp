#include "split_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tril {

ShardWriter::ShardWriter(std::filesystem::path folder,
                         std::string name,
                         const Tokenizer& tokenizer,
                         int64_t shard_tokens)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      tokenizer_(tokenizer),
      fingerprint_(tokenizer.fingerprint()),
      shard_tokens_(shard_tokens) {}

void ShardWriter::open_next() {
  if (file_) file_->finish();
  paths_.push_back(folder_ / (shard_tokens_ > 0
                                  ? fmt::format("{}_{:05}.tokens", name_, paths_.size())
                                  : fmt::format("{}.tokens", name_)));
  file_ = std::make_unique<TokenFileWriter>(
      paths_.back(), tokenizer_.vocab_size(), fingerprint_, tokenizer_.end_of_text());
}

void ShardWriter::append(std::span<const int32_t> ids, int64_t text_bytes) {
  written_.tokens += static_cast<int64_t>(ids.size());
  written_.text_bytes += text_bytes;
  while (!ids.empty()) {
    if (!file_ || (shard_tokens_ > 0 && file_->count() == shard_tokens_)) open_next();
    if (shard_tokens_ == 0 || static_cast<int64_t>(ids.size()) <= shard_tokens_ - file_->count()) {
      file_->append(ids);
      file_->add_text_bytes(text_bytes);
      return;
    }
    // The shard ends here: its part of the bytes is that of its ids.
    const auto n = static_cast<size_t>(shard_tokens_ - file_->count());
    int64_t bytes = 0;
    for (const int32_t id : ids.first(n)) {
      bytes += static_cast<int64_t>(tokenizer_.token_bytes(id).size());
    }
    file_->append(ids.first(n));
    file_->add_text_bytes(bytes);
    text_bytes -= bytes;
    ids = ids.subspan(n);
  }
}

void ShardWriter::append_end_of_text(int32_t id) {
  append({&id, 1}, 0);
}

PreparedSplit ShardWriter::finish() {
  if (!file_) open_next();
  file_->finish();
  file_.reset();
  const auto n_shards = static_cast<int64_t>(paths_.size());
  for (int64_t i = 0; shard_tokens_ > 0 && i < n_shards; ++i) {
    mark_shard(paths_[static_cast<size_t>(i)], i, n_shards);
  }
  written_.files = n_shards;
  return written_;
}

}  // namespace tril
