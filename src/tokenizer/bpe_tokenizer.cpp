#include "tril/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bpe_merger.h"
#include "gpt2_split.h"
#include "piece_cache.h"
#include "piece_encoder.h"
#include "tril/base/fingerprint.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr size_t kMaxSpecialBytes = 1024;

/// What one call of encode_to works with.
struct Workspace {
  PieceCache cache;
  MergeScratch scratch;
};

/// Keeps workspaces between calls, so that threads neither share one nor begin with a cold one.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

/// A token's bytes where they can be copied without a look at their number.
struct ShortToken {
  static constexpr size_t kMaxBytes = 15;
  static constexpr uint8_t kLong = 255;

  explicit ShortToken(std::string_view token)
      : n_bytes(token.size() <= kMaxBytes ? static_cast<uint8_t>(token.size()) : kLong) {
    if (n_bytes != kLong) std::memcpy(bytes, token.data(), token.size());
  }
  char bytes[kMaxBytes] = {};
  uint8_t n_bytes;
};

std::string fingerprint_of(const BpeVocabulary& vocabulary) {
  FingerprintStream stream;
  const auto number = [&stream](uint64_t value) {
    std::array<unsigned char, 8> bytes;
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
    stream.update(bytes.data(), bytes.size());
  };
  const auto text = [&](std::string_view bytes) {
    number(bytes.size());
    stream.update(bytes.data(), bytes.size());
  };
  text("tril byte-level bpe 1, split gpt2");
  number(vocabulary.whole_pieces_first ? 1 : 0);
  number(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) text(token);
  number(vocabulary.merges.size());
  for (const BpeMerge& merge : vocabulary.merges) {
    number(static_cast<uint64_t>(merge.left) << 32 | static_cast<uint64_t>(merge.right));
  }
  number(vocabulary.special.size());
  for (const SpecialToken& token : vocabulary.special) {
    number(static_cast<uint64_t>(token.id));
    text(token.text);
  }
  return stream.hex();
}

}  // namespace

struct BpeTokenizer::Impl {
  explicit Impl(BpeVocabulary parts, const std::string& origin);

  class NewPieces;
  void encode_piece(std::string_view piece, Workspace& work, std::vector<int32_t>& out) const;

  BpeVocabulary vocabulary;
  PairTable pairs;
  std::array<int32_t, 256> byte_ids;
  std::unordered_map<std::string_view, int32_t> whole_pieces;  // empty unless whole_pieces_first
  int64_t end_of_text = -1;
  int64_t newline = 0;
  std::string fingerprint;
  std::vector<ShortToken> short_tokens;  // by id, for decode_to
  mutable WorkspacePool pool;
};

BpeTokenizer::Impl::Impl(BpeVocabulary parts, const std::string& origin)
    : vocabulary(std::move(parts)), pairs(vocabulary.merges) {
  const auto& tokens = vocabulary.tokens;
  if (tokens.size() > static_cast<size_t>(kMaxBpeVocabulary)) {
    throw DataError(fmt::format(
        "{} has {} ids: at most {} are supported", origin, tokens.size(), kMaxBpeVocabulary));
  }
  const auto n_ids = static_cast<int64_t>(tokens.size());
  std::vector<bool> is_special(tokens.size());
  for (const SpecialToken& token : vocabulary.special) {
    if (token.text.empty() || token.id < 0 || token.id >= n_ids ||
        tokens[static_cast<size_t>(token.id)] != token.text) {
      throw DataError(fmt::format("{}: the special token \"{}\" has id {}, which is not its own",
                                  origin,
                                  escape_for_message(token.text),
                                  token.id));
    }
    if (token.text.size() > kMaxSpecialBytes) {
      throw DataError(fmt::format("{}: the special token {} has {} bytes, at most {} are supported",
                                  origin,
                                  token.id,
                                  token.text.size(),
                                  kMaxSpecialBytes));
    }
    is_special[static_cast<size_t>(token.id)] = true;
    if (token.text == kEndOfText) end_of_text = token.id;
  }
  byte_ids.fill(-1);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (is_special[id]) continue;
    if (tokens[id].size() == 1) {
      int32_t& slot = byte_ids[static_cast<uint8_t>(tokens[id][0])];
      if (slot < 0) slot = static_cast<int32_t>(id);
    }
    if (vocabulary.whole_pieces_first && !tokens[id].empty()) {
      whole_pieces.emplace(tokens[id], static_cast<int32_t>(id));
    }
  }
  const auto missing = std::find(byte_ids.begin(), byte_ids.end(), -1);
  if (missing != byte_ids.end()) {
    throw DataError(fmt::format(
        "{} has no token for the byte 0x{:02X}: expected a byte-level vocabulary, as GPT-2's",
        origin,
        missing - byte_ids.begin()));
  }
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const BpeMerge& merge = vocabulary.merges[rank];
    const auto token = [&](int32_t id) -> std::string_view {
      return id < 0 || id >= n_ids ? std::string_view() : tokens[static_cast<size_t>(id)];
    };
    const auto left = token(merge.left);
    const auto right = token(merge.right);
    const auto result = token(merge.result);
    if (left.empty() || right.empty() || result.size() != left.size() + right.size() ||
        !result.starts_with(left) || !result.ends_with(right)) {
      throw DataError(fmt::format("{}: merge {} (ids {} and {}) does not give id {}",
                                  origin,
                                  rank,
                                  merge.left,
                                  merge.right,
                                  merge.result));
    }
  }
  newline = byte_ids['\n'];
  short_tokens.reserve(tokens.size());
  for (const std::string& token : tokens) short_tokens.emplace_back(token);
  fingerprint = fingerprint_of(vocabulary);
}

void BpeTokenizer::Impl::encode_piece(std::string_view piece,
                                      Workspace& work,
                                      std::vector<int32_t>& out) const {
  if (piece.size() > kMaxPieceBytes) {
    throw DataError(fmt::format(
        "the text has {} bytes without a place where a token must end, such as the end of a word "
        "(at most {}): is it text? It begins with \"{}\"",
        piece.size(),
        kMaxPieceBytes,
        escape_for_message(piece, 40)));
  }
  if (vocabulary.whole_pieces_first) {
    if (const auto found = whole_pieces.find(piece); found != whole_pieces.end()) {
      out.push_back(found->second);
      return;
    }
  }
  merge_piece(piece, byte_ids.data(), pairs, work.scratch, out);
}

/// Encodes what the cache lacks, and puts it there.
class BpeTokenizer::Impl::NewPieces final : public PieceFallback {
 public:
  NewPieces(const Impl& impl, Workspace& work) : impl_(impl), work_(work) {}

  void encode(std::string_view piece, std::vector<int32_t>& out) override {
    if (piece.size() > PieceCache::kMaxLongBytes) return impl_.encode_piece(piece, work_, out);
    const bool is_long = piece.size() > kMaxKeyBytes;
    if (is_long) {
      const auto known = work_.cache.find_long(piece);
      out.insert(out.end(), known.begin(), known.end());
      if (!known.empty()) return;
    }
    const size_t begin = out.size();
    impl_.encode_piece(piece, work_, out);
    const auto ids = std::span(out).subspan(begin);
    if (is_long) {
      work_.cache.insert_long(piece, ids);
    } else {
      work_.cache.insert(piece_key(piece, /*may_overread=*/false), ids);
    }
  }

 private:
  const Impl& impl_;
  Workspace& work_;
};

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, const std::string& origin)
    : impl_(std::make_unique<const Impl>(std::move(vocabulary), origin)) {}
BpeTokenizer::~BpeTokenizer() = default;

int64_t BpeTokenizer::vocab_size() const {
  return static_cast<int64_t>(impl_->vocabulary.tokens.size());
}

void BpeTokenizer::encode_to(std::string_view text, std::vector<int32_t>& out) const {
  auto work = impl_->pool.take();
  if (!work) work = std::make_unique<Workspace>();
  const size_t out_begin = out.size();
  // About as many ids as there will be; doubling, where many texts are appended one by one.
  const size_t n_expected = out_begin + text.size() / 3 + 16;
  if (n_expected > out.capacity()) out.reserve(std::max(n_expected, 2 * out.capacity()));
  try {
    Impl::NewPieces new_pieces(*impl_, *work);
    encode_pieces(text, work->cache, new_pieces, out);
  } catch (...) {
    out.resize(out_begin);
    throw;
  }
  impl_->pool.give_back(std::move(work));
}

std::string_view BpeTokenizer::token_bytes(int64_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw DataError(
        fmt::format("token id {} is outside the BPE tokenizer's vocabulary (ids 0 to {})",
                    id,
                    vocab_size() - 1));
  }
  return impl_->vocabulary.tokens[static_cast<size_t>(id)];
}

void BpeTokenizer::decode_to(std::span<const int32_t> ids, std::string& out) const {
  const auto& tokens = impl_->vocabulary.tokens;
  const auto& short_tokens = impl_->short_tokens;
  size_t n_bytes = 0;
  for (const int32_t id : ids) {
    if (static_cast<uint32_t>(id) >= short_tokens.size()) token_bytes(id);  // throws
    const uint8_t n = short_tokens[static_cast<size_t>(id)].n_bytes;
    n_bytes += n != ShortToken::kLong ? n : tokens[static_cast<size_t>(id)].size();
  }
  const size_t begin = out.size();
  out.resize(begin + n_bytes + sizeof(ShortToken));  // every copy is of a whole ShortToken
  char* at = out.data() + begin;
  for (const int32_t id : ids) {
    const ShortToken& token = short_tokens[static_cast<size_t>(id)];
    if (token.n_bytes != ShortToken::kLong) {
      std::memcpy(at, &token, sizeof(token));
      at += token.n_bytes;
    } else {
      const std::string& bytes = tokens[static_cast<size_t>(id)];
      std::memcpy(at, bytes.data(), bytes.size());
      at += bytes.size();
    }
  }
  out.resize(begin + n_bytes);
}

int64_t BpeTokenizer::start_token() const {
  return impl_->end_of_text >= 0 ? impl_->end_of_text : impl_->newline;
}

int64_t BpeTokenizer::end_of_text() const {
  return impl_->end_of_text;
}

std::span<const SpecialToken> BpeTokenizer::special_tokens() const {
  return impl_->vocabulary.special;
}

size_t BpeTokenizer::safe_prefix(std::string_view text, bool at_end) const {
  return at_end ? text.size() : gpt2_safe_prefix(text);
}

std::string BpeTokenizer::fingerprint() const {
  return impl_->fingerprint;
}

const BpeVocabulary& BpeTokenizer::vocabulary() const {
  return impl_->vocabulary;
}

}  // namespace tril
