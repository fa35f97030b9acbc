#include "tril/base/utf8.h"

#include <vector>

#include "support/catch.h"
#include "tril/base/counter_random.h"

using namespace tril;

namespace {
const std::string kBad = "\xEF\xBF\xBD";  // U+FFFD
}

TEST_CASE("every code point survives encoding and decoding", "[base]") {
  size_t n_wrong = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const auto decoded = decode_utf8(text + "x");
    if (!decoded || decoded->value != c || decoded->n_bytes != text.size()) ++n_wrong;
  }
  CHECK(n_wrong == 0);
}

TEST_CASE("malformed UTF-8 is refused", "[base]") {
  for (const char* text : {"\x80",              // stray continuation
                           "\xC0\x80",          // overlong NUL
                           "\xC1\xBF",          // overlong
                           "\xE0\x9F\xBF",      // overlong
                           "\xF0\x8F\xBF\xBF",  // overlong
                           "\xED\xA0\x80",      // surrogate
                           "\xF4\x90\x80\x80",  // above U+10FFFF
                           "\xF5\x80\x80\x80",
                           "\xFF",
                           "\xE6\x97",      // cut
                           "\xE6\x97z"}) {  // cut by a letter
    CHECK_FALSE(decode_utf8(text));
    // Behind ASCII long enough for the fast path.
    CHECK(find_invalid_utf8(std::string("abcdefghij") + text) == 10);
  }
  CHECK_FALSE(find_invalid_utf8("naïve — 日本語 🤗, and plain text after it\n"));
  CHECK_FALSE(find_invalid_utf8(""));
}

TEST_CASE("characters are named for messages", "[base]") {
  CHECK(describe_code_point(U'd') == "'d' (U+0064)");
  CHECK(describe_code_point(U'é') == "'é' (U+00E9)");
  CHECK(describe_code_point(U'🤗') == "'🤗' (U+1F917)");
  CHECK(describe_code_point(U'\n') == "U+000A");
  CHECK(describe_code_point(0x7F) == "U+007F");
  CHECK(describe_code_point(0x301) == "U+0301");   // combining accent
  CHECK(describe_code_point(0x202E) == "U+202E");  // turns the line around
  CHECK(describe_code_point(0xFFFF) == "U+FFFF");
}

TEST_CASE("escaped text stays on one line and inside its limit", "[base]") {
  CHECK(escape_for_message("a \"b\"\\\r\n\t\x01\x7f") == R"(a \"b\"\\\r\n\t\x01\x7f)");
  CHECK(escape_for_message("\xff日\xe6\x97") == R"(\xff日\xe6\x97)");
  CHECK(escape_for_message("\xE2\x80\xAE") == R"(\u{202e})");
  CHECK(escape_for_message("e\xCC\x81") == "e\xCC\x81");  // a combining accent
  CHECK(escape_for_message(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(escape_for_message(std::string(81, 'x')) == std::string(80, 'x') + "...");
  CHECK(escape_for_message("ab日", 4) == "ab...");  // never half a character
}

TEST_CASE("streamed text does not depend on how it is cut", "[base]") {
  std::string text = "naïve 日本語 🤗 \xff\xe6\x97z \xf0\x9f\xa4 \xed\xa0\x80 \xc0\x80";
  for (uint64_t i = 0; i < 2'000; ++i) {
    // Random bytes, three quarters of them not ASCII.
    const uint64_t bits = random_bits(1, RandomStream::kCorpus, i);
    text.push_back(static_cast<char>(bits % 4 == 0 ? bits >> 57 : 0x80 | (bits >> 57)));
  }
  Utf8Stream whole;
  std::string expected = whole.push(text);
  expected += whole.finish();
  CHECK_FALSE(find_invalid_utf8(expected));
  for (const size_t n : {1U, 2U, 3U, 7U}) {
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < text.size(); at += n) {
      const std::string piece = stream.push(text.substr(at, n));
      CHECK_FALSE(find_invalid_utf8(piece));
      out += piece;
    }
    out += stream.finish();
    CHECK(out == expected);
  }
}

TEST_CASE("a stream waits for the rest of a character and no longer", "[base]") {
  Utf8Stream stream;
  CHECK(stream.push("a\xF0\x9F") == "a");
  CHECK(stream.push("\xA4\x97") == "🤗");
  CHECK(stream.push("\xE6") == "");
  CHECK(stream.push("b") == kBad + "b");
  CHECK(stream.push("\xE6\x97") == "");
  CHECK(stream.finish() == kBad);
  CHECK(stream.finish() == "");
}
