#include "tril/tokenizer/char_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "json_fields.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr char32_t kMaxCodePoint = 0x10FFFF;

constexpr bool is_character(char32_t c) {
  return c <= kMaxCodePoint && !(c >= 0xD800 && c <= 0xDFFF);
}

constexpr unsigned char byte_at(std::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

/// Bytes a character needs, by its first byte; 1 for a byte that begins none.
constexpr size_t bytes_announced(unsigned char first) {
  if (first >= 0xF0 && first <= 0xF4) return 4;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  return 1;
}

/// Length of `text` without a character at its end whose last bytes are missing.
size_t without_incomplete_end(std::string_view text) {
  const size_t n_back = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= n_back; ++back) {
    const unsigned char byte = byte_at(text, text.size() - back);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation: its first byte is further left
    return bytes_announced(byte) > back ? text.size() - back : text.size();
  }
  return text.size();
}

EncodeError invalid_utf8(std::string_view text, size_t offset) {
  return EncodeError(fmt::format("byte 0x{:02X}", byte_at(text, offset)),
                     static_cast<int64_t>(offset),
                     "is not valid UTF-8: the char tokenizer needs UTF-8 text; convert the text, "
                     "or use the byte tokenizer, which takes any bytes");
}

EncodeError unknown_character(char32_t character, size_t offset, int64_t vocab_size) {
  return EncodeError("character " + describe_code_point(character),
                     static_cast<int64_t>(offset),
                     fmt::format("is not in this model's vocabulary ({} character{}): leave it "
                                 "out, or train with a text that has it or the byte tokenizer",
                                 vocab_size,
                                 vocab_size == 1 ? "" : "s"));
}

}  // namespace

CharTokenizer::CharTokenizer(std::vector<char32_t> vocabulary, const std::string& origin)
    : vocabulary_(std::move(vocabulary)) {
  if (vocabulary_.empty()) {
    throw DataError(fmt::format("{} is empty: expected at least one character", origin));
  }
  for (const char32_t c : vocabulary_) {
    if (!is_character(c)) {
      throw DataError(fmt::format(
          "{} holds 0x{:X}, which is not a character", origin, static_cast<uint32_t>(c)));
    }
  }
  const size_t highest = *std::max_element(vocabulary_.begin(), vocabulary_.end());
  id_of_.assign(highest + 1, -1);
  utf8_begin_.reserve(vocabulary_.size() + 1);
  for (size_t id = 0; id < vocabulary_.size(); ++id) {
    int32_t& slot = id_of_[vocabulary_[id]];
    if (slot >= 0) {
      throw DataError(fmt::format("{} holds {} twice, as ids {} and {}",
                                  origin,
                                  describe_code_point(vocabulary_[id]),
                                  slot,
                                  id));
    }
    slot = static_cast<int32_t>(id);
    utf8_begin_.push_back(static_cast<uint32_t>(utf8_.size()));
    append_utf8(utf8_, vocabulary_[id]);
  }
  utf8_begin_.push_back(static_cast<uint32_t>(utf8_.size()));
  ascii_id_.fill(-1);
  std::copy_n(id_of_.begin(), std::min(id_of_.size(), ascii_id_.size()), ascii_id_.begin());
}

CharTokenizer CharTokenizer::from_text(std::string_view text) {
  CharVocabularyBuilder builder;
  builder.add(text);
  return builder.finish();
}

CharTokenizer CharTokenizer::from_json(const Json& json, const std::string& origin) {
  check_tokenizer_fields(json, origin, /*version=*/1, {"type", "version", "vocabulary"});
  const auto list = json.find("vocabulary");
  if (list == json.end() || !list->is_array()) {
    throw DataError(
        fmt::format("'{}': \"vocabulary\" must be a list of one-character strings, "
                    "found {}",
                    origin,
                    list == json.end() ? "none" : list->type_name()));
  }
  if (list->size() > static_cast<size_t>(kMaxCharVocabulary)) {
    throw DataError(
        fmt::format("'{}': \"vocabulary\" has {} entries, more than there are "
                    "characters ({})",
                    origin,
                    list->size(),
                    kMaxCharVocabulary));
  }
  std::vector<char32_t> vocabulary;
  vocabulary.reserve(list->size());
  for (const Json& entry : *list) {
    std::optional<CodePoint> point;
    if (entry.is_string() && !entry.get_ref<const std::string&>().empty()) {
      point = decode_utf8(entry.get_ref<const std::string&>());
    }
    if (!point || point->n_bytes != entry.get_ref<const std::string&>().size()) {
      throw DataError(
          fmt::format("'{}': vocabulary[{}] must be a string of one character, found "
                      "{}",
                      origin,
                      vocabulary.size(),
                      escape_for_message(dump_json(entry, -1))));
    }
    vocabulary.push_back(point->value);
  }
  return CharTokenizer(std::move(vocabulary), fmt::format("'{}': \"vocabulary\"", origin));
}

void CharTokenizer::encode_to(std::string_view text, std::vector<int32_t>& out) const {
  const size_t begin = out.size();
  out.resize(begin + text.size());  // a character has at least one byte
  int32_t* next = out.data() + begin;
  size_t i = 0;
  while (i < text.size()) {
    const unsigned char first = byte_at(text, i);
    if (first < 0x80) {
      const int32_t id = ascii_id_[first];
      if (id < 0) {
        out.resize(begin);
        throw unknown_character(first, i, vocab_size());
      }
      *next++ = id;
      ++i;
      continue;
    }
    const std::optional<CodePoint> point = decode_utf8(text.substr(i));
    const bool known = point && point->value < id_of_.size() && id_of_[point->value] >= 0;
    if (!known) {
      out.resize(begin);
      if (!point) throw invalid_utf8(text, i);
      throw unknown_character(point->value, i, vocab_size());
    }
    *next++ = id_of_[point->value];
    i += point->n_bytes;
  }
  out.resize(static_cast<size_t>(next - out.data()));
}

std::string_view CharTokenizer::token_bytes(int64_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw DataError(
        fmt::format("token id {} is outside the char tokenizer's vocabulary (ids 0 to "
                    "{})",
                    id,
                    vocab_size() - 1));
  }
  const uint32_t begin = utf8_begin_[static_cast<size_t>(id)];
  const uint32_t end = utf8_begin_[static_cast<size_t>(id) + 1];
  return std::string_view(utf8_).substr(begin, end - begin);
}

int64_t CharTokenizer::start_token() const {
  return std::max(ascii_id_['\n'], 0);
}

OrderedJson CharTokenizer::to_json() const {
  OrderedJson list = OrderedJson::array();
  for (int64_t id = 0; id < vocab_size(); ++id) list.push_back(std::string(token_bytes(id)));
  OrderedJson json;
  json["type"] = kind();
  json["version"] = 1;
  json["vocabulary"] = std::move(list);
  return json;
}

size_t CharTokenizer::safe_prefix(std::string_view text, bool at_end) const {
  return at_end ? text.size() : without_incomplete_end(text);
}

void CharVocabularyBuilder::add(std::string_view piece) {
  // Only the few bytes around a cut character are copied.
  while (!pending_.empty() && !piece.empty()) {
    pending_ += piece.front();
    piece.remove_prefix(1);
    pending_.erase(0, scan(pending_, /*at_end=*/false));
  }
  if (piece.empty()) return;
  pending_.assign(piece.substr(scan(piece, /*at_end=*/false)));
}

void CharVocabularyBuilder::end_text() {
  scan(pending_, /*at_end=*/true);
  pending_.clear();
  offset_ = 0;
}

CharTokenizer CharVocabularyBuilder::finish() {
  end_text();
  std::vector<char32_t> vocabulary;
  for (char32_t c = 0; c < seen_ascii_.size(); ++c) {
    if (seen_ascii_[c]) vocabulary.push_back(c);
  }
  for (size_t c = seen_ascii_.size(); c < seen_.size(); ++c) {
    if (seen_[c]) vocabulary.push_back(static_cast<char32_t>(c));
  }
  return CharTokenizer(std::move(vocabulary), "the text's character vocabulary");
}

/// Notes the characters of `text`, whose first byte is byte offset_ of the whole; returns how many
/// bytes they took.
size_t CharVocabularyBuilder::scan(std::string_view text, bool at_end) {
  const size_t end = at_end ? text.size() : without_incomplete_end(text);
  size_t i = 0;
  while (i < end) {
    const unsigned char first = byte_at(text, i);
    if (first < 0x80) {
      seen_ascii_[first] = true;
      ++i;
      continue;
    }
    const std::optional<CodePoint> point = decode_utf8(text.substr(i));
    if (!point) {
      const EncodeError error = invalid_utf8(text, i);
      throw error.located(offset_ + error.offset(), "");
    }
    if (point->value >= seen_.size()) seen_.resize(point->value + 1);
    seen_[point->value] = true;
    i += point->n_bytes;
  }
  offset_ += static_cast<int64_t>(end);
  return end;
}

}  // namespace tril
