#pragma once
// Collects a BPE vocabulary from the tokens and merges of a file, with errors that name the entry.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tril/base/json.h"
#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {

class BpeParts {
 public:
  /// `origin` begins every error: a quoted path.
  explicit BpeParts(std::string origin) : origin_(std::move(origin)) {}

  /// `name`: in GPT-2's characters; one that holds others stands for its own UTF-8. `id`: a JSON
  /// number.
  void add_token(const std::string& name, const Json& id);
  /// A token that stands for `text` and is no result of merges; may have been added as a token
  /// before.
  void add_special(const std::string& text, const Json& id);
  /// The parts of the next merge, which must have been added; "left right", or apart.
  void add_merge(std::string_view line);
  void add_merge(std::string_view left, std::string_view right);
  /// Turns every token that is neither a byte nor the result of a merge into a special one.
  void make_others_special();

  BpeVocabulary finish(bool whole_pieces_first) &&;

 private:
  int32_t checked_id(const std::string& name, const Json& id) const;
  int32_t known(std::string_view name) const;
  void place(int32_t id, std::string bytes);

  std::string origin_;
  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, int32_t> id_of_;  // by name
};

}  // namespace tril
