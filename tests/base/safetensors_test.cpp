#include "tril/base/safetensors.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tril/base/counter_random.h"
#include "tril/base/error.h"

using namespace tril;
using tril::testing::TempDir;
namespace fs = std::filesystem;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // some file systems flush a file that replaces its content: slow
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The length field and a header, as in a file.
std::string with_length(std::string_view header) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>((uint64_t{header.size()} >> (8 * i)) & 0xFF));
  }
  return out.append(header);
}

std::string refusal(const fs::path& path) {
  try {
    SafetensorsFile::open(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("tensors of every kind survive writing and reading", "[base]") {
  const TempDir dir;
  write_safetensors(dir / "m",
                    {{"w", "F32", {2, 1}, bytes_of("ABCDEFGH")},
                     {"flag", "BOOL", {3}, bytes_of("\1\1\1")},
                     {"scalar", "I64", {}, bytes_of("12345678")},
                     {"none", "F16", {4, 0, 7}, {}},
                     {"half", "BF16", {1}, bytes_of("xy")}},
                    {{"format", "pt"}, {"note", "é\n"}});
  const SafetensorsFile file = SafetensorsFile::open(dir / "m");
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) {
    names.push_back(info.name);
    // A reader may view the data in place.
    const auto address = reinterpret_cast<uintptr_t>(file.data(info).data());
    CHECK(address % safetensors_element_bytes(info.dtype) == 0);
  }
  CHECK(names == std::vector<std::string>{"flag", "half", "none", "scalar", "w"});
  CHECK(file.metadata().at("format") == "pt");
  CHECK(file.metadata().at("note") == "é\n");
  const TensorInfo* w = file.find("w");
  REQUIRE(w != nullptr);
  CHECK(w->dtype == "F32");
  CHECK(w->shape == std::vector<int64_t>{2, 1});
  CHECK(text_of(file.data(*w)) == "ABCDEFGH");
  CHECK(text_of(file.data(*file.find("scalar"))) == "12345678");
  CHECK(file.find("scalar")->shape.empty());
  CHECK(file.data(*file.find("none")).empty());
  CHECK(file.find("missing") == nullptr);
}

TEST_CASE("the written bytes are the documented ones, whatever the order given", "[base]") {
  const TempDir dir;
  const TensorToWrite a{"a", "U8", {2}, bytes_of("aa")};
  const TensorToWrite b{"b", "U8", {1}, bytes_of("b")};
  write_safetensors(dir / "1", {a, b});
  write_safetensors(dir / "2", {b, a});
  const std::string bytes = read_file(dir / "1", FileRole::kData);
  CHECK(bytes == read_file(dir / "2", FileRole::kData));
  std::string header =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})";
  header.resize(120, ' ');  // 8 + 120 is a multiple of 64
  CHECK(bytes == with_length(header) + "aab");
}

TEST_CASE("a file without tensors is legal", "[base]") {
  const TempDir dir;
  write_safetensors(dir / "m", {});
  CHECK(SafetensorsFile::open(dir / "m").tensors().empty());
  CHECK(fs::file_size(dir / "m") == 64);
}

TEST_CASE("wrong calls of the writer are found", "[base]") {
  const TempDir dir;
  const auto write = [&](std::vector<TensorToWrite> tensors) {
    write_safetensors(dir / "m", std::move(tensors));
  };
  CHECK_THROWS_AS(write({{"a", "F32", {2}, bytes_of("1234")}}), std::logic_error);
  CHECK_THROWS_AS(write({{"a", "F31", {1}, bytes_of("1234")}}), std::logic_error);
  CHECK_THROWS_AS(write({{"a", "U8", {0}, {}}, {"a", "U8", {0}, {}}}), std::logic_error);
  CHECK_FALSE(fs::exists(dir / "m"));
}

TEST_CASE("malformed safetensors files are refused with their reason", "[base]") {
  const TempDir dir;
  const fs::path path = dir / "bad";
  const auto found = [&](const std::string& bytes) {
    put(path, bytes);
    return refusal(path);
  };
  CHECK_THAT(found(""), ContainsSubstring("bad is not a usable safetensors file: it has 0 bytes"));
  CHECK_THAT(found("1234567"), ContainsSubstring("it has 7 bytes, expected at least 8"));
  CHECK_THAT(found(std::string(8, '\xff')),
             ContainsSubstring("a header of 18446744073709551615 bytes, but 0 follow"));
  CHECK_THAT(found(std::string("\x0b\0\0\0\0\0\0\0{}", 10)), ContainsSubstring("11 bytes, but 2"));
  CHECK_THAT(found(with_length("")), ContainsSubstring("header begins with \"\""));
  CHECK_THAT(found(with_length("[]")), ContainsSubstring("header begins with \"[]\""));
  CHECK_THAT(found(with_length("{\"a\":")), ContainsSubstring("(safetensors header):1:"));
  CHECK_THAT(found(with_length("{\"a\":{},\"a\":{}}")), ContainsSubstring("duplicate key"));
  CHECK_THAT(found("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
             ContainsSubstring("looks like a Git LFS pointer"));
  CHECK_THAT(found("PK\x03\x04 and so on"), ContainsSubstring("looks like a zip archive"));
  CHECK_THAT(found("\x80\x02}q."), ContainsSubstring("looks like a Python pickle"));
  CHECK_THAT(refusal(dir.path()), ContainsSubstring("it is a folder"));
  CHECK_THAT(refusal(dir / "none"), ContainsSubstring("no such file"));
}

TEST_CASE("a safetensors header over 16 MB is refused before it is parsed", "[base]") {
  const TempDir dir;
  put(dir / "bad", std::string("\x01\0\0\x01\0\0\0\0{", 9));  // 2^24 + 1
  fs::resize_file(dir / "bad", (uint64_t{1} << 24) + 100);    // sparse: takes no space
  CHECK_THAT(refusal(dir / "bad"), ContainsSubstring("16777217 bytes, expected at most 16777216"));
}

TEST_CASE("malformed tensor entries are refused with the tensor's name", "[base]") {
  const TempDir dir;
  const auto found = [&](const std::string& entries, const std::string& data = "12345678") {
    put(dir / "bad", with_length("{" + entries + "}") + data);
    return refusal(dir / "bad");
  };
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"("t":{"dtype":)") + dtype + R"(,"shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}";
  };
  const char* const f32 = "\"F32\"";
  CHECK(found(entry(f32, "[2]", "[0,8]")) == "(accepted)");
  CHECK_THAT(found("\"t\":1"), ContainsSubstring("tensor \"t\": expected an object"));
  CHECK_THAT(found(R"("t":{"dtype":"F32","shape":[2]})"),
             ContainsSubstring("\"data_offsets\" is missing"));
  CHECK_THAT(found(entry("\"F8_X\"", "[8]", "[0,8]")), ContainsSubstring("unknown dtype"));
  CHECK_THAT(found(entry("8", "[8]", "[0,8]")), ContainsSubstring("unknown dtype 8"));
  CHECK_THAT(found(entry(f32, "2", "[0,8]")), ContainsSubstring("not a list"));
  CHECK_THAT(found(entry(f32, "[-2]", "[0,8]")), ContainsSubstring("shape holds -2"));
  CHECK_THAT(found(entry(f32, "[2.0]", "[0,8]")), ContainsSubstring("shape holds 2.0"));
  CHECK_THAT(found(entry(f32, "[18446744073709551615]", "[0,8]")),
             ContainsSubstring("shape holds"));
  CHECK_THAT(found(entry(f32, "[4294967296,4294967296]", "[0,8]")),
             ContainsSubstring("impossibly large"));
  CHECK_THAT(found(entry(f32, "[4294967296,4294967296,0]", "[0,0]")),
             ContainsSubstring("impossibly large"));
  CHECK_THAT(found(entry(f32, "[3]", "[0,8]")),
             ContainsSubstring("takes 12 bytes, but its data_offsets span 8"));
  CHECK_THAT(found(entry(f32, "[2]", "[8,0]")), ContainsSubstring("begin <= end"));
  CHECK_THAT(found(entry(f32, "[2]", "[-8,0]")), ContainsSubstring("begin <= end"));
  CHECK_THAT(found(entry(f32, "[2]", "[0,8,9]")), ContainsSubstring("begin <= end"));
  CHECK_THAT(found(entry(f32, "[3]", "[0,12]")), ContainsSubstring("truncated"));
  CHECK_THAT(found(entry(f32, "[2]", "[9223372036854775800,9223372036854775807]")),
             ContainsSubstring("truncated"));
  CHECK_THAT(found(entry(f32, "[1]", "[0,4]")), ContainsSubstring("tensors end at byte 4"));
  CHECK_THAT(found(entry(f32, "[1]", "[4,8]")), ContainsSubstring("leave a hole"));
  CHECK_THAT(found(entry(f32, "[2]", "[0,8]") +
                   R"(,"u":{"dtype":"F32","shape":[1],"data_offsets":[4,8]})"),
             ContainsSubstring("tensor \"u\"") && ContainsSubstring("overlap"));
  CHECK_THAT(found(R"("__metadata__":[])", ""), ContainsSubstring("__metadata__ is not an object"));
  CHECK_THAT(found(R"("__metadata__":{"k":1})", ""), ContainsSubstring("expected a string"));
}

TEST_CASE("a safetensors file cut anywhere is refused, and damage never crashes", "[base]") {
  const TempDir dir;
  write_safetensors(dir / "m",
                    {{"a", "F32", {2}, bytes_of("ABCDEFGH")}, {"b", "I8", {3}, bytes_of("xyz")}},
                    {{"k", "v"}});
  const std::string good = read_file(dir / "m", FileRole::kData);
  for (size_t n = 0; n < good.size(); ++n) {
    put(dir / "bad", good.substr(0, n));
    if (refusal(dir / "bad") == "(accepted)") FAIL("cut to " << n << " bytes and accepted");
  }
  for (uint64_t i = 0; i < 1'000; ++i) {
    std::string bad = good;
    const uint64_t bits = random_bits(1, RandomStream::kCorpus, i);
    bad[scale_to_range(bits, bad.size())] = static_cast<char>(bits & 0xFF);
    put(dir / "bad", bad);
    refusal(dir / "bad");  // any other exception fails the test
  }
}
