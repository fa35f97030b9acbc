#pragma once
// Byte-level BPE as GPT-2 has it: text is cut into pieces, each piece begins as bytes, and
// neighbours are merged, the earliest learned merge first, until none applies. Source: Sennrich et
// al. 2016; Radford et al. 2019, §2.2.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Two neighbouring tokens and the one they become.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
  bool operator==(const BpeMerge&) const = default;
};

/// What a BPE tokenizer is made of.
struct BpeVocabulary {
  std::vector<std::string> tokens;    ///< bytes by id; "": no token has this id
  std::vector<BpeMerge> merges;       ///< by rank, the first one applies first
  std::vector<SpecialToken> special;  ///< never the result of merges; their ids are in `tokens` too
  bool whole_pieces_first = false;  ///< a piece that is a token needs no merges (HF: ignore_merges)
};

/// More ids than any known vocabulary has, and few enough for memory.
inline constexpr int64_t kMaxBpeVocabulary = int64_t{1} << 20;
/// A longer piece (a run of letters, of spaces, ...) is refused: merging takes 24 bytes for each
/// byte of it.
inline constexpr size_t kMaxPieceBytes = size_t{64} << 20;

/// Ids, merges and the split pattern of GPT-2. The bytes of any text can be encoded, and decode()
/// gives them back. For text that is no UTF-8, a byte that belongs to no character is a symbol of
/// its own. Safe to use from several threads at once.
class BpeTokenizer final : public Tokenizer {
 public:
  /// Throws DataError, which begins with `origin`, unless all 256 bytes are tokens, every merge's
  /// parts and result fit together, and there are at most kMaxBpeVocabulary ids.
  explicit BpeTokenizer(BpeVocabulary vocabulary, const std::string& origin = "BPE vocabulary");
  ~BpeTokenizer() override;

  using Tokenizer::encode_to;
  using Tokenizer::safe_prefix;
  std::string kind() const override { return "bpe"; }
  int64_t vocab_size() const override;
  /// Throws DataError for a piece of more than kMaxPieceBytes; `out` is then as before.
  void encode_to(std::string_view text, std::vector<int32_t>& out) const override;
  std::string_view token_bytes(int64_t id) const override;
  void decode_to(std::span<const int32_t> ids, std::string& out) const override;
  /// end_of_text() where there is one, as GPT-2 has it; else a newline.
  int64_t start_token() const override;
  /// The id of "<|endoftext|>", or -1.
  int64_t end_of_text() const override;
  std::span<const SpecialToken> special_tokens() const override;
  /// The form of Hugging Face's `tokenizers`.
  OrderedJson to_json() const override;
  size_t safe_prefix(std::string_view text, bool at_end) const override;
  std::string fingerprint() const override;

  const BpeVocabulary& vocabulary() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// From a parsed tokenizer.json of Hugging Face's form: model "BPE" with pre_tokenizer "ByteLevel".
/// Throws DataError naming `origin` and what is not supported.
BpeVocabulary bpe_from_huggingface_json(const Json& json, const std::string& origin);

/// From GPT-2's files: encoder.json (or vocab.json) and vocab.bpe (or merges.txt).
BpeVocabulary bpe_from_gpt2_files(const std::filesystem::path& encoder,
                                  const std::filesystem::path& merges);

/// From a rank file of tiktoken: lines of base64 and rank. The special token "<|endoftext|>" gets
/// the lowest id that no rank has, as in r50k and p50k. Throws DataError for vocabularies known to
/// need another split pattern.
BpeVocabulary bpe_from_tiktoken_file(const std::filesystem::path& path);

/// GPT-2's tokenizer, exactly: 50257 ids. Looks for encoder.json and vocab.bpe (or tokenizer.json)
/// in `folder` if given, else in TRIL_GPT2_DIR, the cache (cache_folder()/gpt2), data/gpt2 of the
/// working folder, and data/gpt2 beside the program's build folder. Throws DataError naming
/// scripts/fetch_gpt2_vocab.sh when there is none, and for files with other ids.
std::unique_ptr<Tokenizer> load_gpt2_tokenizer(const std::filesystem::path& folder = {});

/// The tokens of a GPT-2-like JSON file write bytes as characters ("Ġ" is a space). The bytes of
/// such a token, or nothing when it holds a character that stands for no byte.
std::optional<std::string> bytes_of_gpt2_characters(std::string_view token);
/// The other way.
std::string gpt2_characters(std::string_view bytes);

}  // namespace tril
