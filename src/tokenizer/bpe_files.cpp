// GPT-2's published files, and tiktoken's rank files.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpe_merger.h"
#include "bpe_parts.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {
namespace {

/// Takes the next line off `text`; CR LF ends a line as LF does.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Strict base64 with padding; nothing for anything else.
std::optional<std::string> decode_base64(std::string_view text) {
  const auto value_of = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  size_t n_padding = 0;
  while (n_padding < 2 && text[text.size() - 1 - n_padding] == '=') ++n_padding;
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text.substr(0, text.size() - n_padding)) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      bytes.push_back(static_cast<char>(bits >> n_bits & 0xFF));
    }
  }
  return bytes;
}

struct RankedToken {
  std::string bytes;
  int32_t rank = 0;
};

std::vector<RankedToken> read_ranks(const std::filesystem::path& path) {
  const std::string file = read_file(path, FileRole::kData, uint64_t{256} << 20);
  std::string_view rest = file;
  std::vector<RankedToken> ranks;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::optional<std::string> bytes = decode_base64(line.substr(0, space));
    const std::string_view digits = line.substr(std::min(space + 1, line.size()));
    int32_t rank = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!bytes || bytes->empty() || error != std::errc() || end != digits.data() + digits.size() ||
        rank < 0 || rank >= kMaxBpeVocabulary - 1) {
      throw DataError(fmt::format("'{}', line {}: expected base64 and a rank, found \"{}\"",
                                  path.string(),
                                  number,
                                  escape_for_message(line, 60)));
    }
    ranks.push_back({*bytes, rank});
  }
  if (ranks.empty()) throw DataError(fmt::format("'{}' holds no tokens", path.string()));
  std::sort(ranks.begin(), ranks.end(), [](const RankedToken& a, const RankedToken& b) {
    return a.rank < b.rank;
  });
  return ranks;
}

/// Rank files that go with another split pattern, by their number of tokens.
void refuse_other_patterns(const std::filesystem::path& path, size_t n_tokens) {
  constexpr std::array<std::pair<size_t, const char*>, 3> kOthers{
      {{100256, "cl100k_base"}, {199998, "o200k_base"}, {128000, "Llama 3"}}};
  for (const auto& [count, name] : kOthers) {
    if (n_tokens != count) continue;
    throw DataError(fmt::format(
        "'{}' has the {} tokens of {}, which goes with a split pattern that tril does not have; "
        "supported is GPT-2's (gpt2, r50k_base, p50k_base)",
        path.string(),
        count,
        name));
  }
}

}  // namespace

BpeVocabulary bpe_from_gpt2_files(const std::filesystem::path& encoder,
                                  const std::filesystem::path& merges) {
  const Json json = read_json_file(encoder, FileRole::kData);
  if (!json.is_object()) {
    throw DataError(fmt::format("'{}' is no vocabulary: expected an object of tokens and ids",
                                encoder.string()));
  }
  BpeParts parts(fmt::format("'{}' with '{}'", encoder.string(), merges.filename().string()));
  for (const auto& [token, id] : json.items()) parts.add_token(token, id);
  const std::string file = read_file(merges, FileRole::kData, uint64_t{256} << 20);
  std::string_view rest = file;
  if (rest.starts_with("#version")) take_line(rest);
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (!line.empty()) parts.add_merge(line);
  }
  parts.make_others_special();
  return std::move(parts).finish(/*whole_pieces_first=*/false);
}

// tiktoken merges any neighbours that together are a token, the lowest rank first, and takes a
// piece that is a token as it is. The same ids come from one merge per token, found by running the
// merges of all lower ranks over the token's own bytes: they leave two parts, and that pair is the
// only one that ever makes the token (what happens inside a token's bytes does not depend on what
// stands around them). A token they leave in more parts is never made by merging; it needs the rule
// of the whole piece.
BpeVocabulary bpe_from_tiktoken_file(const std::filesystem::path& path) {
  const std::vector<RankedToken> ranks = read_ranks(path);
  refuse_other_patterns(path, ranks.size());
  BpeVocabulary vocabulary;
  vocabulary.tokens.resize(static_cast<size_t>(ranks.back().rank) + 2);
  std::array<int32_t, 256> byte_ids;
  byte_ids.fill(-1);
  PairTable pairs;
  MergeScratch scratch;
  std::vector<int32_t> parts;
  for (const auto& [bytes, rank] : ranks) {
    std::string& token = vocabulary.tokens[static_cast<size_t>(rank)];
    if (!token.empty()) {
      throw DataError(fmt::format("'{}': two tokens have the rank {}", path.string(), rank));
    }
    token = bytes;
    if (bytes.size() == 1) {
      byte_ids[static_cast<uint8_t>(bytes[0])] = rank;
      continue;
    }
    for (const char byte : bytes) {
      if (byte_ids[static_cast<uint8_t>(byte)] >= 0) continue;
      throw DataError(fmt::format(
          "'{}': the token of rank {} holds the byte 0x{:02X}, which is no token before it",
          path.string(),
          rank,
          static_cast<uint8_t>(byte)));
    }
    parts.clear();
    merge_piece(bytes, byte_ids.data(), pairs, scratch, parts);
    if (parts.size() == 1) {
      throw DataError(fmt::format(
          "'{}': the tokens of ranks {} and {} are the same", path.string(), parts[0], rank));
    }
    if (parts.size() == 2) {
      vocabulary.merges.push_back({parts[0], parts[1], rank});
      pairs.add(vocabulary.merges.back(), static_cast<uint32_t>(vocabulary.merges.size() - 1));
    } else {
      vocabulary.whole_pieces_first = true;
    }
  }
  // r50k has it after the last rank, p50k in a gap that its ranks leave.
  const auto free_id = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), std::string());
  *free_id = "<|endoftext|>";
  vocabulary.special.push_back({*free_id, free_id - vocabulary.tokens.begin()});
  if (vocabulary.tokens.back().empty()) vocabulary.tokens.pop_back();
  return vocabulary;
}

}  // namespace tril
