#include "tril/base/json.h"

#include <fstream>
#include <limits>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tril/base/error.h"

using namespace tril;

namespace {

/// The message for a text that must be refused.
std::string refusal(std::string_view text) {
  try {
    parse_json(text, "a.json", FileRole::kConfig);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(accepted)";
}

std::string nested(size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("JSON values of every type are read", "[base]") {
  const Json value = parse_json(
      R"({"a":[1,-2,3.5,1e3,true,false,null,"é\n\u00e9"],"b":{"c":{}},"d":[[],[{"e":18446744073709551615}]]})",
      "a.json",
      FileRole::kConfig);
  CHECK(value["a"].size() == 8);
  CHECK(value["a"][0].is_number_unsigned());
  CHECK(value["a"][1] == -2);
  CHECK(value["a"][3] == 1000.0);
  CHECK(value["a"][7] == "é\né");
  CHECK(value["b"]["c"].empty());
  CHECK(value["d"][1][0]["e"] == std::numeric_limits<uint64_t>::max());
  CHECK(parse_json("42", "a", FileRole::kConfig) == 42);
  CHECK(parse_json("[]", "a", FileRole::kConfig).is_array());
}

TEST_CASE("a byte-order mark and CR LF are no part of the JSON value", "[base]") {
  const Json value = parse_json("\xEF\xBB\xBF{\r\n\"a\": 1\r\n}\r\n", "a.json", FileRole::kConfig);
  CHECK(value == Json{{"a", 1}});
}

TEST_CASE("broken JSON is refused with file, line, column and a way out", "[base]") {
  CHECK_THAT(refusal("{\"a\":1,}"), Catch::Matchers::StartsWith("a.json:1:8: not valid JSON: "));
  CHECK_THAT(refusal("{\"a\":1,}"), ContainsSubstring("no trailing commas"));
  CHECK_THAT(refusal("[1,\n2,\n]"), Catch::Matchers::StartsWith("a.json:3:1: "));
  CHECK_THAT(refusal("{\n  // note\n  \"a\": 1\n}"), ContainsSubstring("a.json:2:"));
  CHECK_THAT(refusal("{\n  // note\n  \"a\": 1\n}"), ContainsSubstring("JSON has no comments"));
  CHECK_THAT(refusal("# note\n{}"), ContainsSubstring("a.json:1:1: "));
  CHECK_THAT(refusal("# note\n{}"), ContainsSubstring("JSON has no comments"));
  CHECK_THAT(refusal("{\"a\":1"), ContainsSubstring("a closing bracket or quote missing"));
  CHECK_THAT(refusal("{'a':1}"), ContainsSubstring("double quotes"));
  CHECK_THAT(refusal("{\"a\":1}x"), Catch::Matchers::StartsWith("a.json:1:8: "));
  CHECK_THAT(refusal("{\"a\":1}{}"), Catch::Matchers::StartsWith("a.json:1:8: "));
  CHECK_THAT(refusal("{\"a\":NaN}"), ContainsSubstring("invalid literal"));
  CHECK_THAT(refusal("{\"a\":1e999}"), ContainsSubstring("number overflow"));
  CHECK_THAT(refusal("\"\\ud800\""), ContainsSubstring("not valid JSON"));
  CHECK_THAT(refusal("\"a\tb\""), ContainsSubstring("control character"));
  for (const char* empty : {"", " \r\n\t", "\xEF\xBB\xBF"}) {
    CHECK(refusal(empty) == "a.json:1:1: empty, expected a JSON value");
  }
  // The library's own marks do not reach the user.
  CHECK(refusal("{\"a\" 1}") ==
        "a.json:1:6: not valid JSON: unexpected number literal; expected ':'");
  CHECK(refusal(std::string(5'000, '9') + "e999").size() < 300);
}

TEST_CASE("a zero byte does not hide the text behind it", "[base]") {
  CHECK_THAT(refusal(std::string_view("{}\0{}", 5)), ContainsSubstring("a.json:1:3: "));
}

TEST_CASE("columns count characters, not bytes", "[base]") {
  CHECK_THAT(refusal("{\"é日\": x}"), Catch::Matchers::StartsWith("a.json:1:8: "));
}

TEST_CASE("invalid UTF-8 is refused where it stands", "[base]") {
  CHECK_THAT(refusal("{\"a\":\n\"b\xff\"}"),
             ContainsSubstring("a.json:2:3: byte 0xff is not valid UTF-8"));
}

TEST_CASE("a duplicate key is refused at its second place", "[base]") {
  CHECK_THAT(refusal("{\"a\":1,\n \"b\":2,\n \"a\":3}"),
             ContainsSubstring("a.json:3:2: duplicate key \"a\""));
  // The same key spelled with escapes; the column is that of its opening quote.
  CHECK_THAT(refusal(R"({"\"x":1, "\u0022x":2})"), ContainsSubstring("a.json:1:11: duplicate key"));
  CHECK_THAT(refusal(R"({"o":{"a":[{"k":1,"k":2}]}})"), ContainsSubstring("duplicate key \"k\""));
  CHECK(refusal(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})") == "(accepted)");
}

TEST_CASE("nesting is bounded at 64 levels", "[base]") {
  CHECK(refusal(nested(64)) == "(accepted)");
  CHECK_THAT(refusal(nested(65)), ContainsSubstring("a.json:1:65: nested too deep"));
  CHECK_THAT(refusal(std::string(1'000'000, '[')), ContainsSubstring("nested too deep"));
}

TEST_CASE("a JSON file is read with its role and its limit", "[base]") {
  const tril::testing::TempDir dir;
  std::ofstream(dir / "c.json") << "{\n\"a\": [1, 2}\n";
  CHECK_THROWS_AS(read_json_file(dir / "c.json", FileRole::kCheckpoint), CheckpointError);
  CHECK_THROWS_WITH(read_json_file(dir / "c.json", FileRole::kData),
                    ContainsSubstring("c.json:2:11: "));
  CHECK_THROWS_WITH(read_json_file(dir / "c.json", FileRole::kData, 5),
                    ContainsSubstring("too large"));
}

TEST_CASE("JSON output is valid whatever bytes a string holds", "[base]") {
  OrderedJson value;
  value["z"] = std::string("\xf0\x9f");  // half a character
  value["a"] = std::string("\x01\xff\"", 3);
  value["n"] = std::numeric_limits<double>::quiet_NaN();
  const std::string text = dump_json(value, -1);
  CHECK(text == "{\"z\":\"\xEF\xBF\xBD\",\"a\":\"\\u0001\xEF\xBF\xBD\\\"\",\"n\":null}");
  CHECK_NOTHROW(parse_json(text, "out", FileRole::kData));
  CHECK(dump_json(Json{{"a", 1}}) == "{\n  \"a\": 1\n}");
}
