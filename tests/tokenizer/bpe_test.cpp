#include "tril/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <random>
#include <thread>

#include "../../src/tokenizer/gpt2_split.h"
#include "../../src/tokenizer/piece_cache.h"
#include "../../src/tokenizer/piece_encoder.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// The 256 bytes in GPT-2's order, the results of these merges from id 256 on, then
/// "<|endoftext|>".
BpeVocabulary small_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  const auto id_of = [&](const std::string& bytes) {
    const auto at = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), bytes);
    REQUIRE(at != vocabulary.tokens.end());
    return static_cast<int32_t>(at - vocabulary.tokens.begin());
  };
  for (const auto& [left, right] : merges) {
    vocabulary.tokens.push_back(left + right);
    vocabulary.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  vocabulary.tokens.emplace_back("<|endoftext|>");
  vocabulary.special.push_back(
      {"<|endoftext|>", static_cast<int64_t>(vocabulary.tokens.size()) - 1});
  return vocabulary;
}

BpeTokenizer small_tokenizer() {
  return BpeTokenizer(small_vocabulary(
      {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {" ", "w"}, {"a", "a"}, {"aa", "aa"}}));
}

/// The merges by the book: of all pairs the lowest rank, of these the leftmost, again and again.
std::vector<int32_t> merge_plainly(const BpeVocabulary& vocabulary, std::string_view piece) {
  std::vector<int32_t> ids;
  for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
  for (bool merged = true; merged;) {
    merged = false;
    for (const BpeMerge& merge : vocabulary.merges) {
      for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.result;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  return ids;
}

std::string random_bytes(std::mt19937& random, size_t n_bytes, std::string_view alphabet) {
  std::string bytes(n_bytes, '\0');
  for (char& c : bytes) c = alphabet[random() % alphabet.size()];
  return bytes;
}

}  // namespace

TEST_CASE("merges apply in the order of their ranks, the leftmost first", "[tokenizer]") {
  const BpeTokenizer tokenizer = small_tokenizer();
  CHECK(tokenizer.kind() == "bpe");
  CHECK(tokenizer.vocab_size() == 256 + 7 + 1);
  CHECK(tokenizer.encode("hello") == std::vector<int32_t>{259});
  CHECK(tokenizer.encode("hell") == std::vector<int32_t>{258});
  // h e l l l o: "he", then the left "ll"; "hell" cannot reach "o" over the third l.
  CHECK(tokenizer.encode("helllo") == std::vector<int32_t>{258, 'l', 'o'});
  CHECK(tokenizer.encode("aaa") == std::vector<int32_t>{261, 'a'});
  CHECK(tokenizer.encode("aaaaa") == std::vector<int32_t>{262, 'a'});
  CHECK(tokenizer.encode(" w w") == std::vector<int32_t>{260, 260});
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.end_of_text() == 263);
  CHECK(tokenizer.decode(std::vector<int32_t>{259, 260, 263}) == "hello w<|endoftext|>");
  CHECK_THROWS_WITH(tokenizer.token_bytes(264), ContainsSubstring("ids 0 to 263"));
  CHECK_THROWS_AS(tokenizer.token_bytes(-1), DataError);
}

TEST_CASE("short, long and remembered pieces merge as the book says", "[tokenizer]") {
  std::mt19937 random(3);
  // Random merges over a few letters; each part is a byte or the result of an earlier merge.
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::string> parts{"a", "b", "c"};
  while (merges.size() < 60) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    if (std::find(parts.begin(), parts.end(), left + right) != parts.end()) continue;
    merges.emplace_back(left, right);
    parts.push_back(left + right);
  }
  const BpeVocabulary vocabulary = small_vocabulary(merges);
  const BpeTokenizer tokenizer(vocabulary);
  for (int i = 0; i < 3000; ++i) {
    const size_t length = i % 10 == 0 ? 40 + random() % 200 : 1 + random() % 20;
    const std::string word = random_bytes(random, length, "abc");
    INFO(word);
    CHECK(tokenizer.encode(word) == merge_plainly(vocabulary, word));
    CHECK(tokenizer.encode(word + " " + word).size() == 2 * tokenizer.encode(word).size() + 1);
  }
}

TEST_CASE("any bytes come back from their BPE ids", "[tokenizer]") {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::mt19937 random(11);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random() & 0xFF);
    CHECK(tokenizer.decode(tokenizer.encode(bytes)) == bytes);
  }
}

TEST_CASE("a text cut at safe prefixes gives the ids of the whole", "[tokenizer]") {
  // Everything merges with everything, so a cut inside a piece shows.
  std::vector<std::pair<std::string, std::string>> merges;
  const std::string alphabet = " \n'slr1!e\xC3\xA9\xE3\x80\x80\xFF";
  for (const char left : alphabet) {
    for (const char right : alphabet) {
      if (std::find(merges.begin(),
                    merges.end(),
                    std::pair(std::string(1, left), std::string(1, right))) == merges.end()) {
        merges.emplace_back(std::string(1, left), std::string(1, right));
      }
    }
  }
  const BpeTokenizer tokenizer(small_vocabulary(merges));
  std::mt19937 random(1);
  const std::vector<std::string> atoms = {" ",
                                          "  ",
                                          "\n",
                                          "'",
                                          "'s",
                                          "'ll",
                                          "'re",
                                          "l",
                                          "e",
                                          "1",
                                          "!",
                                          "\xC3\xA9",
                                          "\xE3\x80\x80",
                                          "\xFF",
                                          "\xC3",
                                          "\xE3\x80",
                                          "<|endoftext|>",
                                          "<|end"};
  int64_t n_cuts = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t k = 1 + random() % 12; k > 0; --k) text += atoms[random() % atoms.size()];
    for (const auto special : {SpecialText::kIsText, SpecialText::kBecomesId}) {
      const auto whole = tokenizer.encode(text, special);
      for (size_t n_read = 0; n_read <= text.size(); ++n_read) {
        const size_t cut =
            tokenizer.safe_prefix(std::string_view(text).substr(0, n_read), false, special);
        REQUIRE(cut <= n_read);
        if (cut == 0) continue;
        ++n_cuts;
        auto ids = tokenizer.encode(std::string_view(text).substr(0, cut), special);
        tokenizer.encode_to(std::string_view(text).substr(cut), ids, special);
        INFO(Json(text).dump(-1, ' ', true, Json::error_handler_t::replace)
             << " cut at " << cut << " of " << n_read);
        REQUIRE(ids == whole);
      }
    }
  }
  CHECK(n_cuts > 100000);
  CHECK(tokenizer.safe_prefix("some words", true) == 10);
  CHECK(tokenizer.safe_prefix("some words", false) == 4);
}

TEST_CASE("a very long piece without a space takes no quadratic time", "[tokenizer]") {
  const BpeTokenizer tokenizer = small_tokenizer();
  const std::string text(4'000'000, 'a');
  const auto ids = tokenizer.encode(text);
  CHECK(ids.size() == 1'000'000);
  CHECK(tokenizer.decode(ids) == text);
  const std::string too_long(kMaxPieceBytes + 1, 'x');
  std::vector<int32_t> out{7};
  CHECK_THROWS_WITH(tokenizer.encode_to("hello " + too_long, out),
                    ContainsSubstring("without a place where a token must end"));
  CHECK(out == std::vector<int32_t>{7});
}

TEST_CASE("a BPE tokenizer is used by several threads at once", "[tokenizer]") {
  const BpeTokenizer tokenizer = small_tokenizer();
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> found(4);
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 200; ++k) found[i] = tokenizer.encode(repeat("hello aaa well ", 50));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : found) CHECK(ids == tokenizer.encode(repeat("hello aaa well ", 50)));
}

TEST_CASE("a BPE tokenizer.json is Hugging Face's form and comes back the same", "[tokenizer]") {
  const BpeTokenizer tokenizer = small_tokenizer();
  const OrderedJson json = tokenizer.to_json();
  CHECK(json.at("model").at("type") == "BPE");
  CHECK(json.at("model").at("merges")[4] == "\u0120 w");
  CHECK(json.at("model").at("vocab").at("\u0120w") == 260);
  CHECK(json.at("added_tokens")[0].at("content") == "<|endoftext|>");
  const auto again = tokenizer_from_json(Json::parse(dump_json(json)), "t.json");
  CHECK(again->fingerprint() == tokenizer.fingerprint());
  CHECK(dump_json(again->to_json()) == dump_json(json));
  CHECK(again->encode("hello w") == tokenizer.encode("hello w"));

  Json newer = Json::parse(dump_json(json));
  for (Json& merge : newer["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    merge = Json::array({text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)});
  }
  CHECK(tokenizer_from_json(newer, "t.json")->fingerprint() == tokenizer.fingerprint());
}

TEST_CASE("another vocabulary or order of merges is another fingerprint", "[tokenizer]") {
  const auto fingerprint = [](const std::vector<std::pair<std::string, std::string>>& merges) {
    return BpeTokenizer(small_vocabulary(merges)).fingerprint();
  };
  CHECK(fingerprint({{"a", "b"}, {"c", "d"}}) != fingerprint({{"c", "d"}, {"a", "b"}}));
  CHECK(fingerprint({{"a", "b"}}) != fingerprint({{"a", "c"}}));
  BpeVocabulary other = small_vocabulary({{"a", "b"}});
  other.special.clear();
  CHECK(BpeTokenizer(other).fingerprint() != fingerprint({{"a", "b"}}));
}

TEST_CASE("broken or foreign BPE files are refused with the entry at fault", "[tokenizer]") {
  const Json good = Json::parse(dump_json(small_tokenizer().to_json()));
  const auto error = [&](const std::string& pointer, const Json& value) -> std::string {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    try {
      tokenizer_from_json(bad, "t.json");
    } catch (const DataError& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(error("/model/type", "WordPiece"), ContainsSubstring("WordPiece"));
  CHECK_THAT(error("/model", 3), ContainsSubstring("\"model\" is 3"));
  CHECK_THAT(error("/model/vocab", 3), ContainsSubstring("\"vocab\" is 3"));
  CHECK_THAT(error("/model/vocab", Json::object()), ContainsSubstring("merge 0 needs the token"));
  CHECK_THAT(error("/model/dropout", 0.1), ContainsSubstring("dropout"));
  CHECK_THAT(error("/model/byte_fallback", true), ContainsSubstring("byte_fallback"));
  CHECK_THAT(error("/model/end_of_word_suffix", "</w>"), ContainsSubstring("end_of_word_suffix"));
  CHECK_THAT(error("/normalizer", Json{{"type", "NFC"}}), ContainsSubstring("NFC"));
  CHECK_THAT(error("/pre_tokenizer", nullptr), ContainsSubstring("pre_tokenizer"));
  CHECK_THAT(error("/pre_tokenizer/add_prefix_space", true), ContainsSubstring("add_prefix_space"));
  CHECK_THAT(error("/model/vocab/a", -1), ContainsSubstring("has the id -1"));
  CHECK_THAT(error("/model/vocab/a", 1e30), ContainsSubstring("has the id 1e+30"));
  CHECK_THAT(error("/model/vocab/a", 98), ContainsSubstring("two tokens have the id 98"));
  CHECK_THAT(error("/model/vocab/a", 10'000'000), ContainsSubstring("has the id 10000000"));
  CHECK_THAT(error("/model/vocab/zz", "x"), ContainsSubstring("has the id \\\"x\\\""));
  CHECK_THAT(error("/model/merges/2", "he"), ContainsSubstring("merge 2 is \"he\""));
  CHECK_THAT(error("/model/merges/2", "he l l"), ContainsSubstring("merge 2 is"));
  CHECK_THAT(error("/model/merges/2", 5), ContainsSubstring("merges holds 5"));
  CHECK_THAT(error("/model/merges/2", "x y"), ContainsSubstring("needs the token \"xy\""));
  CHECK_THAT(error("/model/merges", "x"), ContainsSubstring("must be a list"));
  CHECK_THAT(error("/added_tokens/0/content", ""), ContainsSubstring("is empty"));
  CHECK_THAT(error("/added_tokens/0/id", 5), ContainsSubstring("has the ids 263 and 5"));
  CHECK_THAT(error("/added_tokens/0/lstrip", true), ContainsSubstring("lstrip"));
  CHECK_THAT(error("/added_tokens/1", good["added_tokens"][0]), ContainsSubstring("263 twice"));
  CHECK_THAT(error("/added_tokens/0", "x"), ContainsSubstring("added_tokens holds"));

  CHECK_THAT(error("/added_tokens/1", Json{{"content", "<|endoftext|>"}, {"id", 264}}),
             ContainsSubstring("has the ids 263 and 264"));
  // Tokens that would have one name in GPT-2's characters.
  Json two_names = good;
  two_names["model"]["vocab"]["\u2603"] = 264;
  CHECK(tokenizer_from_json(two_names, "t.json")->token_bytes(264) == "\u2603");
  two_names["model"]["vocab"]["\u00E2\u013A\u0125"] = 265;
  CHECK_THROWS_WITH(tokenizer_from_json(two_names, "t.json"), ContainsSubstring("occurs twice"));

  Json lacks = good;
  lacks["model"]["vocab"].erase("z");
  CHECK_THROWS_WITH(tokenizer_from_json(lacks, "t.json"),
                    ContainsSubstring("no token for the byte 0x7A"));
  CHECK_THROWS_WITH(tokenizer_from_json(Json::object(), "t.json"),
                    ContainsSubstring("is not a tokenizer"));
}

TEST_CASE("broken rank files are refused with the line at fault", "[tokenizer]") {
  const TempDir dir;
  const auto error = [&](const std::string& content) -> std::string {
    write_text(dir / "t.tiktoken", content);
    try {
      load_tokenizer(dir / "t.tiktoken");
    } catch (const DataError& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(error(""), ContainsSubstring("holds no tokens"));
  CHECK_THAT(error("IQ== 0\nIg== x\n"), ContainsSubstring("line 2"));
  CHECK_THAT(error("IQ= 0\n"), ContainsSubstring("line 1"));
  CHECK_THAT(error("I*== 0\n"), ContainsSubstring("line 1"));
  CHECK_THAT(error("IQ== 99999999999\n"), ContainsSubstring("line 1"));
  CHECK_THAT(error("IQ== 0\nIg== 0\n"), ContainsSubstring("two tokens have the rank 0"));
  CHECK_THAT(error("IQ== 0\nISE= 1\nIg== 2\nISI= 3\n"), ContainsSubstring("no token for the byte"));
  CHECK_THAT(error("IQ== 0\nISI= 1\n"), ContainsSubstring("holds the byte 0x22"));
}

TEST_CASE("the end of text takes the id that a rank file leaves free", "[tokenizer]") {
  const TempDir dir;
  // The 256 bytes as base64 ("AA==" is 0, "AQ==" 1, ...), then "ab" at a rank after a gap.
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (unsigned byte = 0; byte < 256; ++byte) {
    ranks += fmt::format("{}{}== {}\n", kDigits[byte >> 2], kDigits[(byte & 3) << 4], byte);
  }
  write_text(dir / "plain.tiktoken", ranks + "YWI= 256\r\n");
  write_text(dir / "gap.tiktoken", ranks + "YWI= 257\n");
  const auto plain = load_tokenizer(dir / "plain.tiktoken");
  CHECK(plain->vocab_size() == 258);
  CHECK(plain->end_of_text() == 257);
  CHECK(plain->encode("ab") == std::vector<int32_t>{256});
  const auto gap = load_tokenizer(dir / "gap.tiktoken");
  CHECK(gap->vocab_size() == 258);
  CHECK(gap->end_of_text() == 256);
  CHECK(gap->encode("ab") == std::vector<int32_t>{257});
}

TEST_CASE("the fast ways through a text give the ids of the plain one", "[tokenizer]") {
  // One id for each piece, which tells its bytes: where the pieces differ, the ids do.
  class Pieces final : public PieceFallback {
   public:
    explicit Pieces(PieceCache& cache) : cache_(cache) {}
    void encode(std::string_view piece, std::vector<int32_t>& out) override {
      std::vector<int32_t> ids(1 + piece.size() % 5, static_cast<int32_t>(piece.size()));
      ids[0] = static_cast<int32_t>(std::hash<std::string_view>()(piece) & 0x7FFFFFFF);
      if (piece.size() <= kMaxKeyBytes) cache_.insert(piece_key(piece, false), ids);
      out.insert(out.end(), ids.begin(), ids.end());
    }

   private:
    PieceCache& cache_;
  };
  std::mt19937 random(21);
  const std::vector<std::string> atoms = {" ",        " ",
                                          "  ",       "\n",
                                          "\t",       "'",
                                          "'s",       "'ll",
                                          "'re",      "'x",
                                          "a",        "the",
                                          "Word",     "1",
                                          "22",       "!",
                                          "?!",       "supercalifragilistic",
                                          "\xC3\xA9", "\xE3\x80\x80",
                                          "\xFF",     "\xE6\x97\xA5"};
  for (int i = 0; i < 300; ++i) {
    // Mostly ASCII, in runs that are longer and shorter than a block of 64 bytes.
    std::string text;
    for (size_t k = random() % 400; k > 0; --k) {
      text += atoms[random() % (random() % 20 == 0 ? atoms.size() : 18)];
    }
    PieceCache cache;
    Pieces fallback(cache);
    std::vector<int32_t> one_by_one;
    Gpt2Splitter splitter(text);
    std::string joined;
    for (auto piece = splitter.next(); !piece.empty(); piece = splitter.next()) {
      fallback.encode(piece, one_by_one);
      joined += piece;
    }
    REQUIRE(joined == text);
    for (int run = 0; run < 2; ++run) {  // with a cold cache, and with a warm one
      std::vector<int32_t> plain;
      std::vector<int32_t> fast;
      PieceCache plain_cache;
      Pieces plain_fallback(plain_cache);
      PieceCache fast_cache;
      Pieces fast_fallback(fast_cache);
      for (int again = 0; again <= run; ++again) {
        plain.clear();
        fast.clear();
        encode_pieces_plainly(text, plain_cache, plain_fallback, plain);
        if (has_encode_pieces_avx2()) {
          encode_pieces_avx2(text, fast_cache, fast_fallback, fast);
        } else {
          fast = plain;
        }
      }
      REQUIRE(plain == one_by_one);
      REQUIRE(fast == one_by_one);
    }
  }
}

TEST_CASE("a cache of pieces forgets rather than grows without end", "[tokenizer]") {
  PieceCache cache;
  for (int32_t i = 0; i < 600'000; ++i) {
    const std::string piece = fmt::format("w{}", i);
    const std::vector<int32_t> ids(static_cast<size_t>(1 + i % 5), i);
    cache.insert(piece_key(piece, false), ids);
    const PieceCache::Ids* found = cache.find(piece_key(piece, false));
    REQUIRE(found != nullptr);
    REQUIRE(found->n_ids == ids.size());
    if (found->n_ids > PieceCache::kMaxIds) {
      REQUIRE(cache.stored_ids(*found)[0] == i);
    } else {
      REQUIRE(found->ids[0] == i);
    }
    const std::string long_piece = "a piece of many bytes " + piece;
    cache.insert_long(long_piece, ids);
    REQUIRE(cache.find_long(long_piece).size() == ids.size());
    REQUIRE(cache.find_long("another " + long_piece).empty());
  }
  CHECK(cache.lines().size() * sizeof(PieceCache::Line) <= size_t{16} << 20);
}
