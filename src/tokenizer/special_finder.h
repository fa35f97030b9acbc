#pragma once
// Special tokens inside a text, for those who ask for their ids.

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Finds special tokens in a text, from its front to its end.
class SpecialFinder {
 public:
  SpecialFinder(std::string_view text, std::span<const SpecialToken> tokens)
      : text_(text), tokens_(tokens), next_(tokens.size()) {
    for (size_t i = 0; i < tokens.size(); ++i) next_[i] = text.find(tokens[i].text);
  }

  struct Found {
    size_t begin = std::string_view::npos;
    const SpecialToken* token = nullptr;
    size_t end() const { return begin + token->text.size(); }
  };

  /// The first one from `from` on (which never goes back); of several that begin there, the
  /// longest.
  Found find(size_t from) {
    Found best;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (next_[i] < from) next_[i] = text_.find(tokens_[i].text, from);
      if (next_[i] == std::string_view::npos || next_[i] > best.begin) continue;
      const bool is_longer =
          best.token == nullptr || tokens_[i].text.size() > best.token->text.size();
      if (next_[i] < best.begin || is_longer) best = {next_[i], &tokens_[i]};
    }
    return best;
  }

 private:
  std::string_view text_;
  std::span<const SpecialToken> tokens_;
  std::vector<size_t> next_;  // where each stands next; npos: nowhere
};

/// Tokenizer::safe_prefix for text in which special tokens count; `plain_safe_prefix(text)` is the
/// same for text without them.
template <typename SafePrefix>
size_t special_safe_prefix(std::string_view text,
                           std::span<const SpecialToken> tokens,
                           const SafePrefix& plain_safe_prefix) {
  // What may be the beginning of a special token is left for later; after the last one before it
  // the text begins anew.
  size_t end = text.size();
  for (const SpecialToken& token : tokens) {
    for (size_t n = std::min(token.text.size() - 1, text.size()); n > 0; --n) {
      if (!text.ends_with(std::string_view(token.text).substr(0, n))) continue;
      end = std::min(end, text.size() - n);
      break;
    }
  }
  size_t begin = 0;
  SpecialFinder finder(text, tokens);
  for (auto found = finder.find(0); found.token != nullptr && found.begin < end;
       found = finder.find(begin)) {
    if (found.end() > end) {
      end = found.begin;
      break;
    }
    begin = found.end();
  }
  // The rest ends here or goes on: both are cut at a place that holds for either.
  return begin + plain_safe_prefix(text.substr(begin, end - begin));
}

}  // namespace tril
