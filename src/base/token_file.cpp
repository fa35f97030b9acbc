#include "tril/base/token_file.h"

#include <fmt/format.h>

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
      "{} is not a usable token file: {}; run `tril prepare` again", posix::shown(path), reason));
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
  return {.count = static_cast<int64_t>(count),
          .vocab_size = static_cast<int64_t>(vocab_size),
          .text_bytes = static_cast<int64_t>(text_bytes),
          .tokenizer_fingerprint = fingerprint,
          .id_bytes = expected_id_bytes};
}

TokenFile TokenFile::open(const std::filesystem::path& path) {
  TokenFile file;
  file.map_ = std::make_shared<const MappedFile>(path, FileRole::kData);
  file.header_ = parse_token_file(file.map_->bytes(), path);
  return file;
}

const std::filesystem::path& TokenFile::path() const {
  return map_->path();
}

void TokenFile::read(int64_t start, std::span<int64_t> out) const {
  assert(start >= 0 && start <= size() && static_cast<int64_t>(out.size()) <= size() - start);
  const std::byte* from = map_->bytes().data() + kTokenFileHeaderBytes +
                          static_cast<size_t>(start) * static_cast<size_t>(header_.id_bytes);
  if (header_.id_bytes == 2) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(load<2>(from + 2 * i));
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(load<4>(from + 4 * i));
  }
}

int64_t TokenFile::at(int64_t i) const {
  int64_t id = 0;
  read(i, {&id, 1});
  return id;
}

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path,
                                 int64_t vocab_size,
                                 std::string tokenizer_fingerprint)
    : final_path_(path) {
  assert(vocab_size >= 1 && is_fingerprint(tokenizer_fingerprint));
  header_.vocab_size = vocab_size;
  header_.tokenizer_fingerprint = std::move(tokenizer_fingerprint);
  header_.id_bytes = id_bytes_for(vocab_size);
  file_ = std::make_unique<FileWriter>(temporary_sibling(path));
  file_->write(std::string(kTokenFileHeaderBytes, '\0'));
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::append(std::span<const int32_t> ids) {
  const auto id_bytes = static_cast<size_t>(header_.id_bytes);
  std::array<char, 8192> piece{};  // a whole number of ids of either width
  size_t n_used = 0;
  for (const int32_t id : ids) {
    if (id < 0 || id >= header_.vocab_size) {
      throw DataError(
          fmt::format("{}: token id {} at position {} is outside the vocabulary, expected "
                      "0 to {}; was the text encoded with another tokenizer?",
                      posix::shown(final_path_),
                      id,
                      header_.count,
                      header_.vocab_size - 1));
    }
    store(piece.data() + n_used, static_cast<uint64_t>(id), id_bytes);
    n_used += id_bytes;
    header_.count += 1;
    if (n_used == piece.size()) {
      file_->write(piece.data(), n_used);
      n_used = 0;
    }
  }
  file_->write(piece.data(), n_used);
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
  file_->write_at(0, header.data(), header.size());
  file_->finish_as(final_path_);
}

}  // namespace tril
