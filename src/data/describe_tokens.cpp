// What token files hold, from their content.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/data/prepare.h"

namespace tril {
namespace {

/// Counts documents as their ids go by.
class DocumentCounter {
 public:
  explicit DocumentCounter(int64_t end_of_text) : end_of_text_(end_of_text) {}

  void add(int64_t id) {
    if (id != end_of_text_) {
      ++length_;
      return;
    }
    end_document();
  }
  void write_to(TokenFileSummary& summary) {
    if (end_of_text_ < 0) return;
    if (length_ > 0) end_document();
    summary.documents = n_documents_;
    summary.longest_document = longest_;
  }

 private:
  void end_document() {
    ++n_documents_;
    longest_ = std::max(longest_, length_);
    length_ = 0;
  }

  int64_t end_of_text_;
  int64_t length_ = 0;
  int64_t longest_ = 0;
  int64_t n_documents_ = 0;
};

}  // namespace

TokenFileSummary describe_tokens(const TokenFile& tokens) {
  TokenFileSummary summary;
  summary.header = tokens.header();
  DocumentCounter documents(tokens.header().end_of_text);
  std::vector<bool> used;
  std::vector<int64_t> ids(size_t{1} << 16);
  for (int64_t begin = 0; begin < tokens.size(); begin += static_cast<int64_t>(ids.size())) {
    ids.resize(
        static_cast<size_t>(std::min(static_cast<int64_t>(ids.size()), tokens.size() - begin)));
    tokens.read(begin, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t id = ids[i];
      if (id < 0 || id >= summary.header.vocab_size) {
        throw DataError(
            fmt::format("{} has id {}, outside its vocabulary of {}: the file is damaged, or of "
                        "another tokenizer",
                        tokens.describe_place(begin + static_cast<int64_t>(i)),
                        id,
                        summary.header.vocab_size));
      }
      if (id > summary.highest_id) {
        summary.highest_id = id;
        used.resize(static_cast<size_t>(id) + 1);
      }
      if (!used[static_cast<size_t>(id)]) {
        used[static_cast<size_t>(id)] = true;
        ++summary.distinct_ids;
      }
      documents.add(id);
    }
  }
  documents.write_to(summary);
  if (tokens.size() > 0) {
    summary.text_bytes_per_token =
        static_cast<double>(summary.header.text_bytes) / static_cast<double>(tokens.size());
  }
  const std::vector<std::filesystem::path> paths = tokens.paths();
  summary.files = static_cast<int64_t>(paths.size());
  std::string all;
  for (const auto& path : paths) all += fingerprint_file(path, FileRole::kData);
  summary.content_fingerprint = paths.size() == 1 ? all : fingerprint(all);
  return summary;
}

TokenFileSummary describe_token_file(const std::filesystem::path& path) {
  return describe_tokens(TokenFile::open(path));
}

}  // namespace tril
