#include "tril/tokenizer/tokenizer.h"

#include <random>

#include "support/catch.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

const std::string kMixedText = "na\u00efve \u2014 \u65e5\u672c\u8a9e\n";  // CASES C08

std::string random_bytes(size_t n_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(n_bytes, '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 0xFF);
  return bytes;
}

std::string error_of(const Tokenizer& tokenizer, std::string_view text) {
  try {
    tokenizer.encode(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("the byte tokenizer gives every byte its own value", "[tokenizer]") {
  const auto tokenizer = make_byte_tokenizer();
  CHECK(tokenizer->kind() == "byte");
  CHECK(tokenizer->vocab_size() == 256);
  CHECK(tokenizer->encode(std::string("A\n\0\xff", 4)) == std::vector<int32_t>{65, 10, 0, 255});
  CHECK(tokenizer->token_bytes(200) == "\xc8");
  CHECK(tokenizer->start_token() == 10);
  CHECK(tokenizer->end_of_text() == -1);
  CHECK(dump_json(tokenizer->to_json(), -1) == R"({"type":"byte","version":1})");
  CHECK_THROWS_AS(tokenizer->token_bytes(256), DataError);
  CHECK_THROWS_AS(tokenizer->token_bytes(-1), DataError);
}

TEST_CASE("the byte tokenizer brings back any bytes", "[tokenizer]") {
  const auto tokenizer = make_byte_tokenizer();
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::string bytes = random_bytes(seed * 37, seed);
    CHECK(tokenizer->decode(tokenizer->encode(bytes)) == bytes);
  }
}

TEST_CASE("encode_to appends to what is there", "[tokenizer]") {
  std::vector<int32_t> ids{7};
  make_byte_tokenizer()->encode_to("ab", ids);
  CHECK(ids == std::vector<int32_t>{7, 97, 98});
  CharTokenizer::from_text("ab").encode_to("ba", ids);
  CHECK(ids == std::vector<int32_t>{7, 97, 98, 1, 0});
}

TEST_CASE("the char vocabulary is the sorted code points of the text", "[tokenizer]") {
  const CharTokenizer tokenizer = CharTokenizer::from_text(kMixedText);
  // LF, space, a, e, n, v, i with diaeresis, dash, and three ideographs: 11, though 21 bytes.
  CHECK(tokenizer.vocabulary() ==
        std::vector<char32_t>{'\n', ' ', 'a', 'e', 'n', 'v', 0xEF, 0x2014, 0x65E5, 0x672C, 0x8A9E});
  CHECK(tokenizer.vocab_size() == 11);
  CHECK(tokenizer.encode(kMixedText) == std::vector<int32_t>{4, 2, 6, 5, 3, 1, 7, 1, 8, 9, 10, 0});
  CHECK(tokenizer.decode(tokenizer.encode(kMixedText)) == kMixedText);
  CHECK(tokenizer.token_bytes(7) == "\u2014");
  CHECK_THROWS_AS(tokenizer.token_bytes(11), DataError);
  CHECK_THROWS_AS(tokenizer.token_bytes(-1), DataError);
}

TEST_CASE("the start token is the newline, or id 0 without one", "[tokenizer]") {
  CHECK(CharTokenizer::from_text("a\tb\n").start_token() == 1);
  CHECK(CharTokenizer::from_text("abc").start_token() == 0);
  CHECK(CharTokenizer::from_text("\u65e5").start_token() == 0);
}

TEST_CASE("an unknown character is named with its place and the vocabulary", "[tokenizer]") {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abcabc");
  CHECK_THAT(
      error_of(tokenizer, "d"),
      ContainsSubstring(
          "character 'd' (U+0064) at offset 0 is not in this model's vocabulary (3 characters)"));
  CHECK_THAT(error_of(tokenizer, "ab\u00e9"), ContainsSubstring("(U+00E9) at offset 2"));
  CHECK_THAT(error_of(tokenizer, "a d"), ContainsSubstring("(U+0020) at offset 1"));
  CHECK_THAT(error_of(tokenizer, "a\U0001F600"), ContainsSubstring("(U+1F600) at offset 1"));
  CHECK(tokenizer.encode("abc").size() == 3);
  CHECK(tokenizer.encode("").empty());

  std::vector<int32_t> ids{5};
  CHECK_THROWS_AS(tokenizer.encode_to("abd", ids), EncodeError);
  CHECK(ids == std::vector<int32_t>{5});
}

TEST_CASE("text that is not UTF-8 is refused with its offset and a way out", "[tokenizer]") {
  const CharTokenizer tokenizer = CharTokenizer::from_text("abc\u00e9");
  for (const char* bad :
       {"ab\xff", "ab\xc3", "ab\xc3(", "ab\xe2\x80", "ab\xed\xa0\x80", "ab\x80"}) {
    INFO(bad);
    const std::string error = error_of(tokenizer, bad);
    CHECK_THAT(error, ContainsSubstring("at offset 2 is not valid UTF-8"));
    CHECK_THAT(error, ContainsSubstring("byte tokenizer"));
    CHECK_THROWS_AS(CharTokenizer::from_text(bad), EncodeError);
  }
  CHECK_THAT(error_of(tokenizer, "ab\xff"), ContainsSubstring("byte 0xFF"));
}

TEST_CASE("a vocabulary built from pieces equals that of the whole", "[tokenizer]") {
  const std::string text = kMixedText + "\U0001F600\u00ef";
  const CharTokenizer whole = CharTokenizer::from_text(text);
  for (size_t n_bytes = 1; n_bytes <= text.size(); ++n_bytes) {
    CharVocabularyBuilder builder;
    for (size_t i = 0; i < text.size(); i += n_bytes) builder.add(text.substr(i, n_bytes));
    CHECK(builder.finish().vocabulary() == whole.vocabulary());
  }
}

TEST_CASE("the vocabulary builder counts offsets over all pieces of one text", "[tokenizer]") {
  CharVocabularyBuilder builder;
  builder.add("abc\xe6\x97");
  builder.add(
      "\xa5"
      "d");
  CHECK_THROWS_WITH(builder.add("e\xff"), ContainsSubstring("byte 0xFF at offset 8 "));

  CharVocabularyBuilder cut;
  cut.add("ab\xe6\x97");
  CHECK_THROWS_WITH(cut.end_text(), ContainsSubstring("byte 0xE6 at offset 2 "));

  CharVocabularyBuilder two_texts;
  two_texts.add("ab");
  two_texts.end_text();
  CHECK_THROWS_WITH(two_texts.add("c\xff"), ContainsSubstring("at offset 1 "));

  CHECK_THROWS_AS(CharVocabularyBuilder().finish(), DataError);
  CHECK_THROWS_AS(CharTokenizer::from_text(""), DataError);
}

TEST_CASE("a safe prefix never ends inside a character", "[tokenizer]") {
  const std::string text = "a\u00e9\u65e5\U0001F600";  // characters begin at 0, 1, 3, 6; end 10
  const CharTokenizer tokenizer = CharTokenizer::from_text(text);
  const std::vector<size_t> expected{0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t n = 0; n <= text.size(); ++n) {
    CHECK(tokenizer.safe_prefix(std::string_view(text).substr(0, n), false) == expected[n]);
    CHECK(tokenizer.safe_prefix(std::string_view(text).substr(0, n), true) == n);
  }
  // Bytes that will never become a character are passed on, so that encoding reports them.
  CHECK(tokenizer.safe_prefix("\x80\x80\x80\x80", false) == 4);
  CHECK(tokenizer.safe_prefix("\xff", false) == 1);
  CHECK(make_byte_tokenizer()->safe_prefix("a\xc3", false) == 2);
}

TEST_CASE("a char tokenizer survives its tokenizer.json", "[tokenizer]") {
  const TempDir dir;
  const std::string text = kMixedText + std::string("\0\t\"\\\x7f", 5) + "\U0010FFFF";
  const CharTokenizer tokenizer = CharTokenizer::from_text(text);
  const auto path = write_text(dir / "tokenizer.json", dump_json(tokenizer.to_json()));
  for (const auto& loaded : {load_tokenizer(path), make_tokenizer(dir.path().string())}) {
    CHECK(loaded->kind() == "char");
    CHECK(loaded->encode(text) == tokenizer.encode(text));
    CHECK(loaded->fingerprint() == tokenizer.fingerprint());
  }
  CHECK(dump_json(CharTokenizer::from_text("b\n").to_json(), -1) ==
        R"({"type":"char","version":1,"vocabulary":["\n","b"]})");
}

TEST_CASE("a tokenizer.json loads the same with CR LF line ends", "[tokenizer]") {
  const TempDir dir;
  const auto path = write_text(dir / "t.json",
                               "{\r\n\"type\": \"char\",\r\n\"version\": 1,\r\n"
                               "\"vocabulary\": [\r\n\"a\", \"b\"]\r\n}\r\n");
  CHECK(load_tokenizer(path)->fingerprint() == CharTokenizer::from_text("ab").fingerprint());
}

TEST_CASE("tokenizers have equal fingerprints only when ids mean the same", "[tokenizer]") {
  const CharTokenizer ab = CharTokenizer::from_text("ab");
  CHECK(ab.fingerprint() == CharTokenizer::from_text("bbaa").fingerprint());
  CHECK(ab.fingerprint() != CharTokenizer::from_text("ac").fingerprint());
  CHECK(ab.fingerprint() != CharTokenizer({'b', 'a'}).fingerprint());
  CHECK(ab.fingerprint() != make_byte_tokenizer()->fingerprint());
  CHECK(make_byte_tokenizer()->fingerprint().size() == 32);
}

TEST_CASE("a tokenizer.json that is not sound is refused with its path and the fault",
          "[tokenizer]") {
  const TempDir dir;
  struct Case {
    std::string json;
    std::string error;
  };
  const std::vector<Case> cases{
      {"", "tokenizer.json"},
      {"[]", "expected a JSON object, found array"},
      {"{}", "it has no \"type\""},
      {R"({"type":1,"version":1})", "it has no \"type\""},
      {R"({"type":"wordpiece","version":1})", "unknown tokenizer type \"wordpiece\""},
      {R"({"type":"byte"})", "expected 1, found none"},
      {R"({"type":"byte","version":2})", "expected 1, found 2"},
      {R"({"type":"byte","version":"1"})", "expected 1, found"},
      {R"({"type":"byte","version":1.0})", "expected 1, found 1.0"},
      {R"({"type":"byte","version":1,"vocabulary":[]})", "unknown key \"vocabulary\""},
      {R"({"type":"char","version":0,"vocabulary":["a"]})", "expected 1, found 0"},
      {R"({"type":"char","version":1})", "found none"},
      {R"({"type":"char","version":1,"vocabulary":"abc"})", "found string"},
      {R"({"type":"char","version":1,"vocabulary":[]})", "is empty"},
      {R"({"type":"char","version":1,"vocabulary":["a","bc"]})", "vocabulary[1] must be"},
      {R"({"type":"char","version":1,"vocabulary":["a",""]})", "vocabulary[1] must be"},
      {R"({"type":"char","version":1,"vocabulary":["a",98]})", "vocabulary[1] must be"},
      {R"({"type":"char","version":1,"vocabulary":[null]})", "vocabulary[0] must be"},
      {R"({"type":"char","version":1,"vocabulary":["a","b","a"]})", "twice, as ids 0 and 2"},
      {R"({"type":"char","version":1,"vocabulary":["\ud800"]})", "tokenizer.json"},
      {"{\"type\":\"char\",\"version\":1,\"vocabulary\":[\"\xff\"]}", "tokenizer.json"},
  };
  const auto path = dir / "tokenizer.json";
  for (const Case& bad : cases) {
    INFO(bad.json);
    write_text(path, bad.json);
    CHECK_THROWS_AS(load_tokenizer(path), DataError);
    CHECK_THROWS_WITH(load_tokenizer(path),
                      ContainsSubstring(bad.error) && ContainsSubstring(path.string()));
  }
  CHECK_THROWS_AS(load_tokenizer(dir / "absent.json"), DataError);
}

TEST_CASE("a tokenizer.json with more entries than characters is refused", "[tokenizer]") {
  Json json{{"type", "char"}, {"version", 1}};
  json["vocabulary"] = Json::array();
  for (int64_t i = 0; i <= kMaxCharVocabulary; ++i) json["vocabulary"].push_back("a");
  CHECK_THROWS_WITH(tokenizer_from_json(json, "t.json"),
                    ContainsSubstring("more than there are characters"));
}

TEST_CASE("a list of code points must hold characters only", "[tokenizer]") {
  CHECK_THROWS_AS(CharTokenizer({'a', 0xD800}), DataError);
  CHECK_THROWS_AS(CharTokenizer({0x110000}), DataError);
  CHECK_THROWS_AS(CharTokenizer(std::vector<char32_t>{}), DataError);
}

TEST_CASE("a tokenizer is found by name or path", "[tokenizer]") {
  const TempDir dir;
  CHECK(make_tokenizer("byte")->kind() == "byte");
  CHECK_THROWS_WITH(make_tokenizer("char"), ContainsSubstring("tokenizer.json"));
  CHECK_THROWS_WITH(make_tokenizer("bite"), ContainsSubstring("no tokenizer 'bite'"));
  write_text(dir / "absent.txt", "");
  CHECK_THROWS_AS(make_tokenizer((dir / "absent.txt").string()), DataError);
  CHECK_THROWS_AS(make_tokenizer((dir / "absent").string()), DataError);
  CHECK_THROWS_AS(make_tokenizer(dir.path().string()), DataError);  // no tokenizer.json inside
}

TEST_CASE("the known small corpus has 65 characters", "[tokenizer]") {
  const auto path = shared_data("tinyshakespeare.txt");
  if (!path) TRIL_SKIP("tinyshakespeare.txt is not here");
  const std::string text = read_text(*path);
  const CharTokenizer tokenizer = CharTokenizer::from_text(text);
  CHECK(tokenizer.vocab_size() == 65);
  CHECK(tokenizer.encode(text).size() == 1115394);
  CHECK(first_difference(tokenizer.decode(tokenizer.encode(text)), text) == -1);
}
