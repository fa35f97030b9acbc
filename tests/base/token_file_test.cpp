#include "tril/base/token_file.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"

using namespace tril;
using tril::testing::TempDir;
namespace fs = std::filesystem;

namespace {

const std::string kFingerprint = "0123456789abcdef0123456789abcdef";

void write_tokens(const fs::path& path, int64_t vocab_size, const std::vector<int32_t>& ids) {
  TokenFileWriter writer(path, vocab_size, kFingerprint);
  writer.append(ids);
  writer.add_text_bytes(2 * static_cast<int64_t>(ids.size()));
  writer.finish();
}

std::string token_refusal(const fs::path& path) {
  try {
    TokenFile::open(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("the width of ids follows the vocabulary exactly", "[base]") {
  const TempDir dir;
  for (const int64_t vocab_size : {65'535, 65'536, 65'537}) {
    CAPTURE(vocab_size);
    const auto highest = static_cast<int32_t>(vocab_size - 1);
    write_tokens(dir / "t", vocab_size, {0, highest, 1, 256});
    const TokenFile file = TokenFile::open(dir / "t");
    CHECK(file.header().id_bytes == (vocab_size <= 65'536 ? 2 : 4));
    CHECK(file.header().vocab_size == vocab_size);
    CHECK(file.header().text_bytes == 8);
    CHECK(file.header().tokenizer_fingerprint == kFingerprint);
    REQUIRE(file.size() == 4);
    std::vector<int64_t> ids(4);
    file.read(0, ids);
    CHECK(ids == std::vector<int64_t>{0, highest, 1, 256});
    CHECK(file.at(1) == highest);
    CHECK(fs::file_size(dir / "t") == 1024U + 4U * (vocab_size <= 65'536 ? 2U : 4U));
  }
}

TEST_CASE("the bytes of a token file are the documented ones", "[base]") {
  const TempDir dir;
  write_tokens(dir / "t", 300, {1, 299});
  std::string expected(
      "TRILTOK\n\1\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\x2c\1\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 40);
  expected += kFingerprint;
  expected.resize(1024, '\0');
  expected += std::string("\1\0\x2b\1", 4);
  CHECK(read_file(dir / "t", FileRole::kData) == expected);
}

TEST_CASE("ids written in pieces are read back from anywhere", "[base]") {
  const TempDir dir;
  std::vector<int32_t> ids(10'000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 31 % 5'000);
  TokenFileWriter writer(dir / "t", 5'000, kFingerprint);
  const std::span<const int32_t> all(ids);
  writer.append(all.first(1));
  writer.append({});
  writer.append(all.subspan(1));
  CHECK(writer.count() == 10'000);
  CHECK_FALSE(fs::exists(dir / "t"));  // nothing under the final name before it is whole
  writer.finish();
  const TokenFile file = TokenFile::open(dir / "t");
  std::vector<int64_t> part(4'097);
  file.read(5'903, part);  // up to the very end
  CHECK(std::equal(part.begin(), part.end(), ids.begin() + 5'903));
  const TokenFile copy = file;
  CHECK(copy.at(9'999) == ids.back());
}

TEST_CASE("a file without ids is legal", "[base]") {
  const TempDir dir;
  write_tokens(dir / "t", 1, {});
  CHECK(TokenFile::open(dir / "t").size() == 0);
}

TEST_CASE("an id outside the vocabulary is refused and nothing is left", "[base]") {
  const TempDir dir;
  for (const int32_t id : {-1, 50}) {
    TokenFileWriter writer(dir / "t", 50, kFingerprint);
    writer.append(std::vector<int32_t>{49});
    CHECK_THROWS_AS(writer.append(std::vector<int32_t>{id}), DataError);
    CHECK_THROWS_WITH(writer.append(std::vector<int32_t>{id}),
                      ContainsSubstring("token id " + std::to_string(id)) &&
                          ContainsSubstring("expected 0 to 49"));
  }
  CHECK(fs::is_empty(dir.path()));
}

TEST_CASE("a damaged token file is refused with what was found and what to do", "[base]") {
  const TempDir dir;
  write_tokens(dir / "good", 65, {1, 2, 3});
  const std::string good = read_file(dir / "good", FileRole::kData);
  const auto with = [&](size_t offset, char byte) {
    std::string bad = good;
    bad[offset] = byte;
    write_text(dir / "bad", bad);
    return token_refusal(dir / "bad");
  };
  CHECK_THAT(with(8, 2), ContainsSubstring("format version is 2, expected 1"));
  CHECK_THAT(with(12, 4), ContainsSubstring("4 bytes per id, expected 2 for a vocabulary of 65"));
  CHECK_THAT(with(12, 0), ContainsSubstring("0 bytes per id"));
  CHECK_THAT(with(16, 4), ContainsSubstring("expected 4 ids"));
  CHECK_THAT(with(23, '\x80'), ContainsSubstring("ids of 2 bytes"));  // count near 2^63
  CHECK_THAT(with(24, 0), ContainsSubstring("vocabulary size is 0"));
  CHECK_THAT(with(29, 1), ContainsSubstring("vocabulary size is 10995"));  // 2^40
  CHECK_THAT(with(39, '\xff'), ContainsSubstring("text bytes"));
  CHECK_THAT(with(40, 'G'), ContainsSubstring("fingerprint"));
  CHECK_THAT(with(0, 'X'), ContainsSubstring("begins with \"XRILTOK\\n\""));

  write_text(dir / "bad", good.substr(0, good.size() - 1));
  CHECK_THAT(token_refusal(dir / "bad"),
             ContainsSubstring("bad is not a usable token file: 5 bytes follow the header, "
                               "expected 3 ids of 2 bytes"));
  write_text(dir / "bad", good + "x");
  CHECK_THAT(token_refusal(dir / "bad"), ContainsSubstring("7 bytes follow"));
  write_text(dir / "bad", good + "xx");
  CHECK_THAT(token_refusal(dir / "bad"), ContainsSubstring("8 bytes follow"));
  write_text(dir / "bad", std::string(4'000, '\1'));  // raw ids without a header
  CHECK_THAT(token_refusal(dir / "bad"), ContainsSubstring("begins with"));
  write_text(dir / "bad", std::string(4, '\0'));
  CHECK_THAT(token_refusal(dir / "bad"),
             ContainsSubstring("it has 4 bytes, expected at least the 1024"));
  CHECK_THAT(token_refusal(dir / "bad"), ContainsSubstring("run `tril prepare` again"));
}

namespace {

std::vector<int64_t> ids_of(const TokenFile& file) {
  std::vector<int64_t> ids(static_cast<size_t>(file.size()));
  file.read(0, ids);
  return ids;
}

std::string little_endian(std::initializer_list<uint32_t> words, int n_bytes = 4) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int i = 0; i < n_bytes; ++i) bytes += static_cast<char>((word >> (8 * i)) & 0xFF);
  }
  return bytes;
}

/// A shard as llm.c writes it: 256 words of header, then ids.
std::string llmc_shard(uint32_t magic, uint32_t version, uint32_t count, const std::string& ids) {
  std::string bytes = little_endian({magic, version, count});
  bytes.resize(1024, '\0');
  return bytes + ids;
}

template <typename Call>
std::string data_error(const Call& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "(accepted)";
}

const TokenMeaning kMeaning{.vocab_size = 50257, .tokenizer_fingerprint = kFingerprint};

}  // namespace

TEST_CASE("several token files are read as one stream", "[base]") {
  const TempDir dir;
  write_tokens(dir / "a", 100, {1, 2, 3});
  write_tokens(dir / "b", 100, {});
  write_tokens(dir / "c", 70'000, {69'999, 5});  // another width
  write_tokens(dir / "d", 100, {6});
  const TokenFile all = TokenFile::join({TokenFile::open(dir / "a"),
                                         TokenFile::open(dir / "b"),
                                         TokenFile::open(dir / "c"),
                                         TokenFile::open(dir / "d")});
  const std::vector<int64_t> expected{1, 2, 3, 69'999, 5, 6};
  CHECK(all.size() == 6);
  CHECK(all.header().vocab_size == 70'000);
  CHECK(all.header().text_bytes == 12);
  CHECK(ids_of(all) == expected);
  for (int64_t begin = 0; begin <= 6; ++begin) {
    for (int64_t end = begin; end <= 6; ++end) {
      std::vector<int64_t> ids(static_cast<size_t>(end - begin));
      all.read(begin, ids);
      CHECK(std::equal(ids.begin(), ids.end(), expected.begin() + begin));
      const TokenFile slice = all.slice(begin, end - begin);
      CHECK(slice.size() == end - begin);
      CHECK(ids_of(slice) == ids);
      slice.prefetch(0, 100);
    }
  }
  for (int64_t i = 0; i < 6; ++i) CHECK(all.at(i) == expected[static_cast<size_t>(i)]);
  CHECK_THAT(all.describe_place(4), ContainsSubstring("token 1 of") && ContainsSubstring("/c"));
  CHECK_THAT(all.slice(4, 2).describe_place(0), ContainsSubstring("token 1 of"));
  CHECK(all.paths().size() == 4);
  all.prefetch(-5, 1000);
}

TEST_CASE("files of two tokenizers are no stream", "[base]") {
  const TempDir dir;
  write_tokens(dir / "a", 100, {1});
  TokenFileWriter other(dir / "b", 100, fingerprint("other"));
  other.finish();
  CHECK_THAT(data_error([&] {
               TokenFile::join({TokenFile::open(dir / "a"), TokenFile::open(dir / "b")});
             }),
             ContainsSubstring("different tokenizers") && ContainsSubstring("/b"));
}

TEST_CASE("shards of a set are read whole and in order, or not at all", "[base]") {
  const TempDir dir;
  std::vector<TokenFile> shards;
  for (int i = 0; i < 3; ++i) {
    const fs::path path = dir / std::to_string(i);
    write_tokens(path, 100, {i});
    mark_shard(path, i, 3);
    shards.push_back(TokenFile::open(path));
    CHECK(shards.back().header().shard == i);
    CHECK(shards.back().header().n_shards == 3);
  }
  CHECK(ids_of(TokenFile::join(shards)) == std::vector<int64_t>{0, 1, 2});
  CHECK(TokenFile::join(shards).header().n_shards == 0);
  const auto refused = [&](const std::vector<TokenFile>& files) {
    return data_error([&] { TokenFile::join(files); });
  };
  CHECK_THAT(refused({shards[0], shards[2]}), ContainsSubstring("is shard 0 of a set of 3"));
  CHECK_THAT(refused({shards[0]}), ContainsSubstring("the 1 file named"));
  CHECK_THAT(refused({shards[0], shards[2], shards[1]}), ContainsSubstring("shard 2 of a set"));
  CHECK_THAT(refused({shards[0], shards[1], shards[1]}), ContainsSubstring("number 2 of the 3"));
}

TEST_CASE("the end-of-text id and the shard number in a header are checked", "[base]") {
  const TempDir dir;
  {
    TokenFileWriter writer(dir / "t", 100, kFingerprint, /*end_of_text=*/99);
    writer.append(std::vector<int32_t>{1, 99});
    writer.finish();
  }
  CHECK(TokenFile::open(dir / "t").header().end_of_text == 99);
  write_tokens(dir / "none", 100, {1});
  CHECK(TokenFile::open(dir / "none").header().end_of_text == -1);
  overwrite_in_file(dir / "t", 80, "\x65", 1);  // 101: id 100
  CHECK_THAT(token_refusal(dir / "t"), ContainsSubstring("end-of-text id is 100"));
  overwrite_in_file(dir / "none", 72, "\x05", 1);
  CHECK_THAT(token_refusal(dir / "none"), ContainsSubstring("shard 5 of 0"));
}

TEST_CASE("a token file of more than 4 GiB is read at its far end", "[base]") {
  const TempDir dir;
  // A sparse file: a header, 2^31 + 5 ids of two bytes of which all but the last two are holes.
  constexpr int64_t kCount = (int64_t{1} << 31) + 5;
  write_tokens(dir / "big", 50'000, {});
  std::string count;
  for (int i = 0; i < 8; ++i) count += static_cast<char>((kCount >> (8 * i)) & 0xFF);
  overwrite_in_file(dir / "big", 16, count.data(), count.size());
  fs::resize_file(dir / "big", static_cast<uintmax_t>(1024 + 2 * kCount));
  overwrite_in_file(dir / "big", static_cast<uint64_t>(1024 + 2 * (kCount - 2)), "\x39\x30\x07", 4);
  const TokenFile file = TokenFile::open(dir / "big");
  CHECK(fs::file_size(dir / "big") > (uintmax_t{1} << 32));
  CHECK(file.size() == kCount);
  CHECK(file.at(kCount - 2) == 12'345);
  CHECK(file.at(kCount - 1) == 7);
  CHECK(file.at(kCount - 3) == 0);
  CHECK(file.slice(kCount - 2, 2).at(1) == 7);
  const TokenFile twice = TokenFile::join({file, file});
  CHECK(twice.at(2 * kCount - 1) == 7);
  CHECK(twice.at(kCount) == 0);
  fs::resize_file(dir / "big", (uintmax_t{1} << 32) + 1024);
  CHECK_THAT(token_refusal(dir / "big"), ContainsSubstring("cut short?"));
}

TEST_CASE("shards of llm.c are read", "[base]") {
  const TempDir dir;
  write_text(dir / "gpt2.bin", llmc_shard(20240520, 1, 3, little_endian({7, 50256, 9}, 2)));
  const TokenFile two = TokenFile::open_llmc(dir / "gpt2.bin", kMeaning);
  CHECK(ids_of(two) == std::vector<int64_t>{7, 50256, 9});
  CHECK(two.header().vocab_size == 50257);
  CHECK(two.header().tokenizer_fingerprint == kFingerprint);
  write_text(dir / "llama.bin", llmc_shard(20240801, 7, 2, little_endian({128'000, 5})));
  CHECK(ids_of(TokenFile::open_llmc(dir / "llama.bin", kMeaning)) ==
        std::vector<int64_t>{128'000, 5});
  CHECK(sniff_token_format(dir / "gpt2.bin") == TokenFormat::kLlmc);
  CHECK(sniff_token_format(dir / "llama.bin") == TokenFormat::kLlmc);

  const std::string ids = little_endian({7, 8, 9}, 2);
  const std::vector<std::pair<std::string, std::string>> bad{
      {llmc_shard(20240520, 2, 3, ids), "version is 2, expected 1"},
      {llmc_shard(20240520, 1, 4, ids), "expected 4 ids of 2 bytes"},
      {llmc_shard(20240520, 1, 3, ids).substr(0, 1029), "cut short?"},
      {llmc_shard(20240520, 1, 3, ids).substr(0, 600), "it has 600 bytes"},
      {llmc_shard(20240522, 1, 3, ids), "multiple-choice"},
      {llmc_shard(20240521, 1, 3, ids), "begins with the number 20240521"},
      {"", "begins with the number 0"},
      {little_endian({20240520}), "it has 4 bytes"}};
  for (const auto& [bytes, reason] : bad) {
    write_text(dir / "bad.bin", bytes);
    CHECK_THAT(data_error([&] { TokenFile::open_llmc(dir / "bad.bin", kMeaning); }),
               ContainsSubstring("bad.bin") && ContainsSubstring(reason));
  }
}

TEST_CASE("headerless 2-byte ids are read, and what is not that is refused", "[base]") {
  const TempDir dir;
  write_text(dir / "ids.bin", little_endian({1, 50256, 3}, 2));
  CHECK(ids_of(TokenFile::open_uint16(dir / "ids.bin", kMeaning)) ==
        std::vector<int64_t>{1, 50256, 3});
  CHECK(sniff_token_format(dir / "ids.bin") == TokenFormat::kUnknown);

  write_text(dir / "odd.bin", "abc");
  CHECK_THAT(data_error([&] { TokenFile::open_uint16(dir / "odd.bin", kMeaning); }),
             ContainsSubstring("3 bytes"));
  write_text(dir / "llmc.bin", llmc_shard(20240520, 1, 1, "ab"));
  CHECK_THAT(data_error([&] { TokenFile::open_uint16(dir / "llmc.bin", kMeaning); }),
             ContainsSubstring("shard of llm.c"));
  write_tokens(dir / "ours", 100, {1});
  CHECK_THAT(data_error([&] { TokenFile::open_uint16(dir / "ours", kMeaning); }),
             ContainsSubstring("token file of tril"));
  std::string wide;
  for (uint32_t i = 0; i < 100; ++i) wide += little_endian({i % 60});
  write_text(dir / "wide.bin", wide);
  CHECK_THAT(data_error([&] { TokenFile::open_uint16(dir / "wide.bin", kMeaning); }),
             ContainsSubstring("four bytes"));
  write_text(dir / "zeros.bin", std::string(400, '\0'));  // one token, over and over: legal
  CHECK(TokenFile::open_uint16(dir / "zeros.bin", kMeaning).size() == 200);
}
