#include "tril/base/token_file.h"

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

void put(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string refusal(const fs::path& path) {
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
    put(dir / "bad", bad);
    return refusal(dir / "bad");
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

  put(dir / "bad", good.substr(0, good.size() - 1));
  CHECK_THAT(refusal(dir / "bad"),
             ContainsSubstring("bad is not a usable token file: 5 bytes follow the header, "
                               "expected 3 ids of 2 bytes"));
  put(dir / "bad", good + "x");
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("7 bytes follow"));
  put(dir / "bad", good + "xx");
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("8 bytes follow"));
  put(dir / "bad", std::string(4'000, '\1'));  // raw ids without a header
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("begins with"));
  put(dir / "bad", std::string(4, '\0'));
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("it has 4 bytes, expected at least the 1024"));
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("run `tril prepare` again"));
}
