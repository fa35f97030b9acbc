#include "tril/base/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {

namespace {

constexpr std::string_view kMagic = "TRILTOK\n";
constexpr uint64_t kVersion = 1;
constexpr size_t kFingerprintBytes = 32;

constexpr size_t kVersionOffset = 8;
constexpr size_t kIdBytesOffset = 12;
constexpr size_t kCountOffset = 16;
constexpr size_t kVocabSizeOffset = 24;
constexpr size_t kTextBytesOffset = 32;
constexpr size_t kFingerprintOffset = 40;
constexpr size_t kShardOffset = 72;
constexpr size_t kShardCountOffset = 76;
constexpr size_t kEndOfTextOffset = 80;

constexpr std::string_view kHdf5Magic = "\x89HDF\r\n\x1a\n";
struct LlmcKind {
  uint64_t magic;
  uint64_t version;
  int id_bytes;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};
constexpr uint64_t kLlmcEvalMagic = 20240522;  // multiple-choice questions, no running text

/// Little-endian on every machine; compilers make one load of it where the machine is.
template <size_t kBytes>
uint64_t load(const std::byte* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < kBytes; ++i) value |= std::to_integer<uint64_t>(from[i]) << (8 * i);
  return value;
}

void store(char* to, uint64_t value, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; ++i) to[i] = static_cast<char>((value >> (8 * i)) & 0xFF);
}

bool is_fingerprint(std::string_view text) {
  return text.size() == kFingerprintBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw DataError(fmt::format(
      "{} is not a usable token file: {}; run `tril prepare` again", shown(path), reason));
}

}  // namespace

TokenFileHeader parse_token_file(std::span<const std::byte> file,
                                 const std::filesystem::path& path) {
  if (file.size() < kTokenFileHeaderBytes) {
    refuse(path,
           fmt::format("it has {} bytes, expected at least the {} of a header",
                       file.size(),
                       kTokenFileHeaderBytes));
  }
  const std::string bytes(reinterpret_cast<const char*>(file.data()), kTokenFileHeaderBytes);
  if (!bytes.starts_with(kMagic)) {
    refuse(path,
           fmt::format("it begins with \"{}\", expected \"{}\"",
                       escape_for_message(bytes.substr(0, kMagic.size())),
                       escape_for_message(kMagic)));
  }
  const uint64_t version = load<4>(file.data() + kVersionOffset);
  if (version != kVersion) {
    refuse(path, fmt::format("its format version is {}, expected {}", version, kVersion));
  }

  constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
  const uint64_t id_bytes = load<4>(file.data() + kIdBytesOffset);
  const uint64_t count = load<8>(file.data() + kCountOffset);
  const uint64_t vocab_size = load<8>(file.data() + kVocabSizeOffset);
  const uint64_t text_bytes = load<8>(file.data() + kTextBytesOffset);
  // Ids are 32-bit signed wherever they are made, so no vocabulary is larger.
  constexpr uint64_t kMaxVocabSize = uint64_t{1} << 31;
  if (vocab_size < 1 || vocab_size > kMaxVocabSize) {
    refuse(path,
           fmt::format("its vocabulary size is {}, expected 1 to {}", vocab_size, kMaxVocabSize));
  }
  const int expected_id_bytes = id_bytes_for(static_cast<int64_t>(vocab_size));
  if (id_bytes != static_cast<uint64_t>(expected_id_bytes)) {
    refuse(path,
           fmt::format("it says {} bytes per id, expected {} for a vocabulary of {}",
                       id_bytes,
                       expected_id_bytes,
                       vocab_size));
  }
  const uint64_t data_bytes = file.size() - kTokenFileHeaderBytes;
  if (data_bytes % id_bytes != 0 || data_bytes / id_bytes != count) {
    refuse(path,
           fmt::format("{} bytes follow the header, expected {} ids of {} bytes (cut short?)",
                       data_bytes,
                       count,
                       id_bytes));
  }
  if (text_bytes > kMaxInt64) {
    refuse(path, fmt::format("its count of text bytes is {}", text_bytes));
  }
  const std::string fingerprint = bytes.substr(kFingerprintOffset, kFingerprintBytes);
  if (!is_fingerprint(fingerprint)) {
    refuse(path,
           fmt::format("its tokenizer fingerprint is \"{}\", expected 32 hex digits",
                       escape_for_message(fingerprint)));
  }
  const uint64_t shard = load<4>(file.data() + kShardOffset);
  const uint64_t n_shards = load<4>(file.data() + kShardCountOffset);
  if (shard >= n_shards && (shard > 0 || n_shards > 0)) {
    refuse(path, fmt::format("it says it is shard {} of {}", shard, n_shards));
  }
  const uint64_t end_of_text = load<8>(file.data() + kEndOfTextOffset);  // plus 1
  if (end_of_text > vocab_size) {
    refuse(path,
           fmt::format(
               "its end-of-text id is {}, its vocabulary has {}", end_of_text - 1, vocab_size));
  }
  return {.count = static_cast<int64_t>(count),
          .vocab_size = static_cast<int64_t>(vocab_size),
          .text_bytes = static_cast<int64_t>(text_bytes),
          .tokenizer_fingerprint = fingerprint,
          .id_bytes = expected_id_bytes,
          .shard = static_cast<int64_t>(shard),
          .n_shards = static_cast<int64_t>(n_shards),
          .end_of_text = static_cast<int64_t>(end_of_text) - 1};
}

namespace {

const LlmcKind* llmc_kind(std::span<const std::byte> file) {
  if (file.size() < 4) return nullptr;
  const uint64_t magic = load<4>(file.data());
  for (const LlmcKind& kind : kLlmcKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

TokenFormat format_of(std::span<const std::byte> file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()),
                               std::min<size_t>(file.size(), 8));
  if (begin == kMagic) return TokenFormat::kTril;
  if (begin == kHdf5Magic) return TokenFormat::kHdf5;
  if (llmc_kind(file) != nullptr) return TokenFormat::kLlmc;
  return TokenFormat::kUnknown;
}

const char* format_name(TokenFormat format) {
  switch (format) {
    case TokenFormat::kTril:
      return "a token file of tril (data.format tril or auto)";
    case TokenFormat::kLlmc:
      return "a shard of llm.c (data.format llmc or auto)";
    case TokenFormat::kHdf5:
      return "an HDF5 file (data.format hdf5 or auto)";
    case TokenFormat::kUnknown:
      break;
  }
  return "of an unknown kind";
}

/// Foreign files have no tokenizer inside, so running `tril prepare` again is no help.
[[noreturn]] void refuse_foreign(const std::filesystem::path& path,
                                 const char* kind,
                                 const std::string& reason) {
  throw DataError(fmt::format("{} is not {}: {}", shown(path), kind, reason));
}

TokenFileHeader header_of(const TokenMeaning& meaning, int64_t count, int id_bytes) {
  assert(meaning.vocab_size >= 1 && is_fingerprint(meaning.tokenizer_fingerprint));
  return {.count = count,
          .vocab_size = meaning.vocab_size,
          .tokenizer_fingerprint = meaning.tokenizer_fingerprint,
          .id_bytes = id_bytes,
          .end_of_text = meaning.end_of_text};
}

}  // namespace

TokenFile TokenFile::of_one(MappedFile map, size_t header_bytes, TokenFileHeader header) {
  TokenFile file;
  const auto shared = std::make_shared<const MappedFile>(std::move(map));
  file.parts_ = std::make_shared<const std::vector<Part>>(
      std::vector<Part>{{.map = shared,
                         .ids = shared->bytes().data() + header_bytes,
                         .begin = 0,
                         .count = header.count,
                         .id_bytes = header.id_bytes,
                         .header_bytes = header_bytes}});
  file.header_ = std::move(header);
  return file;
}

TokenFile TokenFile::open(const std::filesystem::path& path) {
  MappedFile map(path, FileRole::kData);
  TokenFileHeader header = parse_token_file(map.bytes(), path);
  return of_one(std::move(map), kTokenFileHeaderBytes, std::move(header));
}

TokenFile TokenFile::open_llmc(const std::filesystem::path& path, const TokenMeaning& meaning) {
  constexpr const char* kKind = "a usable shard of llm.c";
  MappedFile map(path, FileRole::kData);
  const std::span<const std::byte> file = map.bytes();
  const LlmcKind* kind = llmc_kind(file);
  if (kind == nullptr) {
    if (file.size() >= 4 && load<4>(file.data()) == kLlmcEvalMagic) {
      refuse_foreign(path, kKind, "it holds multiple-choice questions, not running text");
    }
    const TokenFormat found = format_of(file);
    refuse_foreign(path,
                   kKind,
                   found != TokenFormat::kUnknown
                       ? fmt::format("it is {}", format_name(found))
                       : fmt::format("it begins with the number {}, expected 20240520 (2-byte ids) "
                                     "or 20240801 (4-byte ids); a file of nothing but 2-byte ids "
                                     "is data.format uint16",
                                     file.size() < 4 ? 0 : load<4>(file.data())));
  }
  if (file.size() < kTokenFileHeaderBytes) {
    refuse_foreign(
        path, kKind, fmt::format("it has {} bytes, its header alone has 1024", file.size()));
  }
  const uint64_t version = load<4>(file.data() + 4);
  const uint64_t count = load<4>(file.data() + 8);
  if (version != kind->version) {
    refuse_foreign(
        path, kKind, fmt::format("its version is {}, expected {}", version, kind->version));
  }
  const uint64_t data_bytes = file.size() - kTokenFileHeaderBytes;
  if (data_bytes != count * static_cast<uint64_t>(kind->id_bytes)) {
    refuse_foreign(path,
                   kKind,
                   fmt::format("{} bytes follow the header, expected {} ids of {} bytes (cut "
                               "short?)",
                               data_bytes,
                               count,
                               kind->id_bytes));
  }
  return of_one(std::move(map),
                kTokenFileHeaderBytes,
                header_of(meaning, static_cast<int64_t>(count), kind->id_bytes));
}

TokenFile TokenFile::open_uint16(const std::filesystem::path& path, const TokenMeaning& meaning) {
  constexpr const char* kKind = "a usable file of 2-byte ids";
  MappedFile map(path, FileRole::kData);
  const std::span<const std::byte> file = map.bytes();
  if (const TokenFormat found = format_of(file); found != TokenFormat::kUnknown) {
    refuse_foreign(path, kKind, fmt::format("it is {}", format_name(found)));
  }
  if (file.size() % 2 != 0) {
    refuse_foreign(
        path, kKind, fmt::format("it has {} bytes, which is no whole number of ids", file.size()));
  }
  // Every second id zero: ids of four bytes, each below 65 536. (Of a text, no such thing happens.)
  constexpr size_t kProbedIds = 4096;
  const size_t n_probed = std::min(kProbedIds, file.size() / 2) / 2 * 2;
  bool every_second_is_zero = n_probed >= 64;
  bool all_zero = true;
  for (size_t i = 0; i < n_probed; ++i) {
    const bool zero = load<2>(file.data() + 2 * i) == 0;
    if (i % 2 == 1 && !zero) every_second_is_zero = false;
    all_zero = all_zero && zero;
  }
  if (every_second_is_zero && !all_zero) {
    refuse_foreign(path,
                   kKind,
                   "every second id is 0, so its ids seem to have four bytes; write it again with "
                   "2-byte ids (numpy: ids.astype('uint16').tofile(...))");
  }
  const auto count = static_cast<int64_t>(file.size() / 2);
  return of_one(std::move(map), 0, header_of(meaning, count, 2));
}

TokenFile TokenFile::join(const std::vector<TokenFile>& files) {
  assert(!files.empty());
  TokenFile all;
  all.header_ = files.front().header_;
  all.header_.count = 0;
  all.header_.text_bytes = 0;
  bool all_know_text_bytes = true;
  std::vector<Part> parts;
  for (size_t i = 0; i < files.size(); ++i) {
    const TokenFile& file = files[i];
    const TokenFileHeader& header = file.header_;
    if (header.tokenizer_fingerprint != all.header_.tokenizer_fingerprint) {
      throw DataError(
          fmt::format("{} and {} were made with different tokenizers (fingerprints {} and {}), and "
                      "cannot be one stream",
                      shown(files.front().path()),
                      shown(file.path()),
                      all.header_.tokenizer_fingerprint,
                      header.tokenizer_fingerprint));
    }
    const bool in_order =
        header.n_shards == 0 || (header.n_shards == static_cast<int64_t>(files.size()) &&
                                 header.shard == static_cast<int64_t>(i));
    if (!in_order) {
      throw DataError(
          fmt::format("{} is shard {} of a set of {}, but it is number {} of the {} file{} named: "
                      "all shards of a set are read together, in their order",
                      shown(file.path()),
                      header.shard,
                      header.n_shards,
                      i,
                      files.size(),
                      files.size() == 1 ? "" : "s"));
    }
    for (Part part : *file.parts_) {
      part.begin += all.header_.count;
      parts.push_back(std::move(part));
    }
    all.header_.count += header.count;
    all.header_.text_bytes += header.text_bytes;
    all.header_.vocab_size = std::max(all.header_.vocab_size, header.vocab_size);
    all_know_text_bytes = all_know_text_bytes && (header.text_bytes > 0 || header.count == 0);
  }
  if (!all_know_text_bytes) all.header_.text_bytes = 0;
  all.header_.shard = 0;
  all.header_.n_shards = 0;
  all.parts_ = std::make_shared<const std::vector<Part>>(std::move(parts));
  return all;
}

TokenFile TokenFile::slice(int64_t begin, int64_t count) const {
  assert(begin >= 0 && count >= 0 && count <= size() - begin);
  TokenFile out;
  out.header_ = header_;
  out.header_.count = count;
  out.header_.text_bytes = 0;
  std::vector<Part> parts;
  for (const Part& part : *parts_) {
    const int64_t from = std::max(begin, part.begin);
    const int64_t to = std::min(begin + count, part.begin + part.count);
    if (from >= to && !(parts.empty() && &part == &parts_->back())) continue;
    const auto skipped = static_cast<size_t>(std::max<int64_t>(from - part.begin, 0));
    parts.push_back({.map = part.map,
                     .ids = part.ids + skipped * static_cast<size_t>(part.id_bytes),
                     .begin = parts.empty() ? 0 : parts.back().begin + parts.back().count,
                     .count = std::max<int64_t>(to - from, 0),
                     .id_bytes = part.id_bytes,
                     .header_bytes = part.header_bytes});
  }
  out.parts_ = std::make_shared<const std::vector<Part>>(std::move(parts));
  return out;
}

const std::filesystem::path& TokenFile::path() const {
  return parts_->front().map->path();
}

const TokenFile::Part& TokenFile::part_of(int64_t i) const {
  if (parts_->size() == 1) return parts_->front();
  // The last part that begins at or before i, so empty parts are passed over.
  const auto after =
      std::upper_bound(parts_->begin(), parts_->end(), i, [](int64_t at, const Part& part) {
        return at < part.begin;
      });
  return *(after - 1);
}

void TokenFile::read(int64_t start, std::span<int64_t> out) const {
  assert(start >= 0 && start <= size() && static_cast<int64_t>(out.size()) <= size() - start);
  while (!out.empty()) {
    const Part& part = part_of(start);
    const int64_t first = start - part.begin;
    const auto n = static_cast<size_t>(
        std::min<int64_t>(static_cast<int64_t>(out.size()), part.count - first));
    const std::byte* from =
        part.ids + static_cast<size_t>(first) * static_cast<size_t>(part.id_bytes);
    if (part.id_bytes == 2) {
      for (size_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(load<2>(from + 2 * i));
    } else {
      for (size_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(load<4>(from + 4 * i));
    }
    start += static_cast<int64_t>(n);
    out = out.subspan(n);
  }
}

void TokenFile::prefetch(int64_t start, int64_t n_ids) const {
  start = std::clamp<int64_t>(start, 0, size());
  n_ids = std::min(n_ids, size() - start);
  while (n_ids > 0) {
    const Part& part = part_of(start);
    const int64_t first = start - part.begin;
    const int64_t n = std::min(n_ids, part.count - first);
    const auto id_bytes = static_cast<size_t>(part.id_bytes);
    part.map->prefetch(static_cast<size_t>(part.ids - part.map->bytes().data()) +
                           static_cast<size_t>(first) * id_bytes,
                       static_cast<size_t>(n) * id_bytes);
    start += n;
    n_ids -= n;
  }
}

std::string TokenFile::describe_place(int64_t i) const {
  assert(i >= 0 && i < size());
  const Part& part = part_of(i);
  // Of a slice too, the number is that in the file.
  const std::byte* first = part.map->bytes().data() + part.header_bytes;
  const int64_t skipped = (part.ids - first) / part.id_bytes;
  return fmt::format("token {} of {}", i - part.begin + skipped, shown(part.map->path()));
}

std::vector<std::filesystem::path> TokenFile::paths() const {
  std::vector<std::filesystem::path> paths;
  for (const Part& part : *parts_) paths.push_back(part.map->path());
  return paths;
}

TokenFormat sniff_token_format(const std::filesystem::path& path) {
  const MappedFile map(path, FileRole::kData);
  return format_of(map.bytes());
}

int64_t TokenFile::at(int64_t i) const {
  int64_t id = 0;
  read(i, {&id, 1});
  return id;
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path,
                                 int64_t vocab_size,
                                 std::string tokenizer_fingerprint,
                                 int64_t end_of_text)
    : final_path_(path) {
  assert(vocab_size >= 1 && is_fingerprint(tokenizer_fingerprint));
  assert(end_of_text >= -1 && end_of_text < vocab_size);
  header_.vocab_size = vocab_size;
  header_.tokenizer_fingerprint = std::move(tokenizer_fingerprint);
  header_.id_bytes = id_bytes_for(vocab_size);
  header_.end_of_text = end_of_text;
  file_ = std::make_unique<FileWriter>(temporary_sibling(path));
  file_->write(std::string(kTokenFileHeaderBytes, '\0'));
}

TokenFileWriter::~TokenFileWriter() = default;

template <typename Id>
void TokenFileWriter::append_as(std::span<const int32_t> ids) {
  std::array<char, 8192> piece{};  // a whole number of ids of either width
  size_t n_used = 0;
  for (const int32_t id : ids) {
    if (id < 0 || id >= header_.vocab_size) {
      throw DataError(
          fmt::format("{}: token id {} at position {} is outside the vocabulary, expected "
                      "0 to {}; was the text encoded with another tokenizer?",
                      shown(final_path_),
                      id,
                      header_.count,
                      header_.vocab_size - 1));
    }
    store(piece.data() + n_used, static_cast<uint64_t>(id), sizeof(Id));
    n_used += sizeof(Id);
    header_.count += 1;
    if (n_used == piece.size()) {
      file_->write(piece.data(), n_used);
      n_used = 0;
    }
  }
  file_->write(piece.data(), n_used);
}

void TokenFileWriter::append(std::span<const int32_t> ids) {
  if (header_.id_bytes == 2) {
    append_as<uint16_t>(ids);
  } else {
    append_as<uint32_t>(ids);
  }
}

void TokenFileWriter::finish() {
  std::string header(kTokenFileHeaderBytes, '\0');
  header.replace(0, kMagic.size(), kMagic);
  store(header.data() + kVersionOffset, kVersion, 4);
  store(header.data() + kIdBytesOffset, static_cast<uint64_t>(header_.id_bytes), 4);
  store(header.data() + kCountOffset, static_cast<uint64_t>(header_.count), 8);
  store(header.data() + kVocabSizeOffset, static_cast<uint64_t>(header_.vocab_size), 8);
  store(header.data() + kTextBytesOffset, static_cast<uint64_t>(header_.text_bytes), 8);
  header.replace(kFingerprintOffset, kFingerprintBytes, header_.tokenizer_fingerprint);
  store(header.data() + kEndOfTextOffset, static_cast<uint64_t>(header_.end_of_text + 1), 8);
  file_->write_at(0, header.data(), header.size());
  file_->finish_as(final_path_);
}

void mark_shard(const std::filesystem::path& path, int64_t shard, int64_t n_shards) {
  assert(shard >= 0 && shard < n_shards && n_shards < (int64_t{1} << 31));
  std::array<char, 8> bytes{};
  store(bytes.data(), static_cast<uint64_t>(shard), 4);
  store(bytes.data() + 4, static_cast<uint64_t>(n_shards), 4);
  overwrite_in_file(path, kShardOffset, bytes.data(), bytes.size());
}

}  // namespace tril
