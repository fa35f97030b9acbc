#pragma once
// What turns text into ids and back. Every tokenizer is written to and read from `tokenizer.json`,
// and has a fingerprint that ties token files and checkpoints to it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/json.h"

namespace tril {

/// Text that has no ids. Keeps its parts, so that whoever encodes a long text in pieces can name
/// the place in the whole: "character 'd' (U+0064) at offset 0 is not in ...".
class EncodeError : public DataError {
 public:
  /// `offset`: bytes before the fault. `place`: what the offset counts in, such as " of 'a.txt'".
  EncodeError(std::string subject, int64_t offset, std::string problem, std::string place = "");

  int64_t offset() const noexcept { return offset_; }
  /// The same fault, with its offset counted in a larger text.
  EncodeError located(int64_t offset, std::string place) const;

 private:
  std::string subject_;
  int64_t offset_;
  std::string problem_;
};

/// A token that stands for no text of its own, such as "<|endoftext|>".
struct SpecialToken {
  std::string text;
  int64_t id = -1;
  bool operator==(const SpecialToken&) const = default;
};

/// What becomes of a special token's text inside a text. By default it is text like any other: a
/// book that mentions "<|endoftext|>" does not end there.
enum class SpecialText { kIsText, kBecomesId };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "byte", "char", "bpe"
  virtual std::string kind() const = 0;
  /// Ids are in [0, vocab_size()).
  virtual int64_t vocab_size() const = 0;
  /// Appends the ids of `text`. Throws DataError for text that has no ids (a character outside
  /// the vocabulary, invalid UTF-8), naming the character and its offset.
  virtual void encode_to(std::string_view text, std::vector<int32_t>& out) const = 0;
  /// The bytes of one token: not always a whole character. The id must be inside (DataError).
  virtual std::string_view token_bytes(int64_t id) const = 0;
  /// The id that begins a text when there is no prompt: the end of a text before it where there is
  /// such a token, else newline where the vocabulary has it, else the lowest id.
  virtual int64_t start_token() const = 0;
  /// The id that ends a document, or -1.
  virtual int64_t end_of_text() const { return -1; }
  /// By id. encode_to() never gives these ids.
  virtual std::span<const SpecialToken> special_tokens() const { return {}; }
  /// The content of tokenizer.json.
  virtual OrderedJson to_json() const = 0;
  /// How long a prefix of `text` can be cut off and encoded by itself with the same result as when
  /// the whole is encoded (for reading text in pieces). `at_end`: nothing follows `text`.
  virtual size_t safe_prefix(std::string_view text, bool at_end) const = 0;

  std::vector<int32_t> encode(std::string_view text,
                              SpecialText special = SpecialText::kIsText) const;
  /// encode_to and safe_prefix for text in which special tokens become their ids: the leftmost
  /// first, of those that begin at one place the longest. What stands between them is encoded by
  /// itself.
  void encode_to(std::string_view text, std::vector<int32_t>& out, SpecialText special) const;
  size_t safe_prefix(std::string_view text, bool at_end, SpecialText special) const;
  /// Appends the bytes of these tokens. Throws DataError for an id outside, with `out` as it was.
  virtual void decode_to(std::span<const int32_t> ids, std::string& out) const;
  std::string decode(std::span<const int64_t> ids) const;
  std::string decode(std::span<const int32_t> ids) const;
  /// 32 hex digits: equal if and only if the ids mean the same.
  virtual std::string fingerprint() const;
};

/// Reads a tokenizer.json (tril's, or Hugging Face's of byte-level BPE) or a .tiktoken rank file.
/// Throws DataError (path, what is wrong).
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

/// "byte", "gpt2", or the path of a tokenizer file (load_tokenizer) or of a folder that holds
/// tokenizer.json, vocab.json with merges.txt, or encoder.json with vocab.bpe. (A learned one,
/// "char" or "bpe:N", is refused: its vocabulary comes from a text.) `vocab_folder`: where "gpt2"
/// looks for its files; empty: see load_gpt2_tokenizer. Throws DataError.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path,
                                          const std::filesystem::path& vocab_folder = {});

/// Builds a tokenizer from the parsed content of a tokenizer.json; `origin` is named in errors.
std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& origin);

}  // namespace tril
