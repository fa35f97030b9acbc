// GPT-2's ids, against what tiktoken gives (tests/golden/gpt2.json, scripts/make_gpt2_golden.py).

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <random>

#include "../../src/tokenizer/bpe_merger.h"
#include "support/catch.h"
#include "support/gpt2_strings.h"
#include "support/gpt2_vocabulary.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

#define REQUIRE_GPT2(folder)         \
  const auto folder = gpt2_folder(); \
  if (!folder) TRIL_SKIP("GPT-2's vocabulary is not here: scripts/fetch_gpt2_vocab.sh")

const Json& golden() {
  return gpt2_golden();
}

class Checksum {
 public:
  void add(std::span<const int32_t> ids) {
    for (const int32_t id : ids) add(static_cast<uint32_t>(id));
  }
  void add(uint32_t id) { value_ = (value_ ^ id) * 0x100000001B3ULL; }
  std::string hex() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xCBF29CE484222325ULL;
};

std::string checksum_of(std::span<const int32_t> ids) {
  Checksum checksum;
  checksum.add(ids);
  return checksum.hex();
}

void check_strings(const Tokenizer& tokenizer, size_t n_checksums) {
  const Json& expected = golden().at("strings");
  Strings strings(expected.at("seed").get<uint64_t>());
  for (size_t i = 0; i < n_checksums; ++i) {
    Checksum checksum;
    for (int64_t k = expected.at("per_checksum").get<int64_t>(); k > 0; --k) {
      checksum.add(tokenizer.encode(strings.next()));
      checksum.add(0xFFFFFFFFU);
    }
    INFO("checksum " << i);
    CHECK(checksum.hex() == expected.at("checksums")[i]);
  }
}

/// tiktoken's form of the same vocabulary.
void write_tiktoken_file(const std::filesystem::path& path, const BpeVocabulary& vocabulary) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::ofstream file(path, std::ios::binary);
  for (size_t id = 0; id + 1 < vocabulary.tokens.size(); ++id) {
    const std::string& bytes = vocabulary.tokens[id];
    for (size_t i = 0; i < bytes.size(); i += 3) {
      uint32_t bits = 0;
      for (size_t k = 0; k < 3; ++k) {
        bits = bits << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
      }
      for (size_t k = 0; k < 4; ++k) {
        file << (i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63]);
      }
    }
    file << ' ' << id << '\n';
  }
}

}  // namespace

TEST_CASE("GPT-2 ids of known texts are tiktoken's", "[tokenizer][golden]") {
  REQUIRE_GPT2(folder);
  const auto tokenizer = load_gpt2_tokenizer(*folder);
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->end_of_text() == 50256);
  CHECK(tokenizer->start_token() == 50256);
  CHECK(tokenizer->token_bytes(50256) == "<|endoftext|>");
  CHECK(tokenizer->encode("hello world") == std::vector<int32_t>{31373, 995});
  for (const Json& known : golden().at("cases")) {
    const auto text = known.at("text").get<std::string>();
    INFO(escape_for_message(text));
    CHECK(tokenizer->encode(text) == known.at("ids").get<std::vector<int32_t>>());
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  }
}

TEST_CASE("special tokens are text unless ids are asked for", "[tokenizer]") {  // CASES C14
  REQUIRE_GPT2(folder);
  const auto tokenizer = load_gpt2_tokenizer(*folder);
  CHECK(tokenizer->encode("a<|endoftext|>b") ==
        std::vector<int32_t>{64, 27, 91, 437, 1659, 5239, 91, 29, 65});
  CHECK(tokenizer->encode("a<|endoftext|>b", SpecialText::kBecomesId) ==
        std::vector<int32_t>{64, 50256, 65});
  CHECK(tokenizer->encode("<|endoftext|><|endoftext|>", SpecialText::kBecomesId) ==
        std::vector<int32_t>{50256, 50256});
  CHECK(tokenizer->encode("a <|endoftext", SpecialText::kBecomesId) ==
        tokenizer->encode("a <|endoftext"));
}

TEST_CASE("GPT-2 ids of 100 000 strings that hit the pattern's corners are tiktoken's",
          "[tokenizer][golden]") {
  REQUIRE_GPT2(folder);
  check_strings(*load_gpt2_tokenizer(*folder), 2);
}

TEST_CASE("GPT-2 ids of a million strings that hit the pattern's corners are tiktoken's",
          "[tokenizer][golden][slow]") {
  REQUIRE_GPT2(folder);
  check_strings(*load_gpt2_tokenizer(*folder), 20);
}

TEST_CASE("GPT-2 ids of a long text of all scripts are tiktoken's, whole and in pieces",
          "[tokenizer][golden]") {
  REQUIRE_GPT2(folder);
  const auto tokenizer = load_gpt2_tokenizer(*folder);
  const Json& expected = golden().at("text");
  Strings strings(expected.at("seed").get<uint64_t>());
  std::string text;
  for (int64_t i = expected.at("strings").get<int64_t>(); i > 0; --i) text += strings.next();
  CHECK(text.size() == expected.at("bytes").get<size_t>());
  const auto ids = tokenizer->encode(text);
  CHECK(ids.size() == expected.at("tokens").get<size_t>());
  CHECK(checksum_of(ids) == expected.at("checksum"));
  CHECK(first_difference(tokenizer->decode(ids), text) == -1);

  // Read in pieces of any size, also ones that end inside a character.
  std::mt19937 random(5);
  std::vector<int32_t> pieced;
  std::string pending;
  for (size_t at = 0; at < text.size();) {
    const size_t n = std::min<size_t>(1 + random() % 3000, text.size() - at);
    pending.append(text, at, n);
    at += n;
    const size_t safe = tokenizer->safe_prefix(pending, at == text.size());
    tokenizer->encode_to(std::string_view(pending).substr(0, safe), pieced);
    pending.erase(0, safe);
  }
  CHECK(pieced == ids);
}

TEST_CASE("tinyshakespeare has 338 025 GPT-2 tokens", "[tokenizer][golden]") {
  REQUIRE_GPT2(folder);
  const auto path = shared_data("tinyshakespeare.txt");
  if (!path) TRIL_SKIP("tinyshakespeare.txt is not here");
  const auto ids = load_gpt2_tokenizer(*folder)->encode(read_text(*path));
  CHECK(ids.size() == 338025);
  CHECK(checksum_of(ids) == golden().at("tinyshakespeare").at("checksum"));
}

TEST_CASE("GPT-2's vocabulary is the same from each kind of file", "[tokenizer]") {
  REQUIRE_GPT2(folder);
  const TempDir dir;
  const auto published = load_gpt2_tokenizer(*folder);
  const auto& bpe = dynamic_cast<const BpeTokenizer&>(*published);

  // What a run folder holds: no vocabulary file is needed to read it.
  write_text(dir / "tokenizer.json", dump_json(published->to_json()));
  const auto stored = load_tokenizer(dir / "tokenizer.json");
  CHECK(stored->fingerprint() == published->fingerprint());
  CHECK(dump_json(stored->to_json()) == dump_json(published->to_json()));
  CHECK(load_gpt2_tokenizer(dir.path())->fingerprint() == published->fingerprint());

  write_tiktoken_file(dir / "r50k_base.tiktoken", bpe.vocabulary());
  const auto ranked = load_tokenizer(dir / "r50k_base.tiktoken");
  CHECK(ranked->fingerprint() == published->fingerprint());

  // The names of Hugging Face's folders, with CR LF (CASES C06).
  std::filesystem::create_directory(dir / "old");
  std::filesystem::copy(*folder / "encoder.json", dir / "old" / "vocab.json");
  std::string merges = read_text(*folder / "vocab.bpe");
  for (size_t at = 0; (at = merges.find('\n', at)) != std::string::npos; at += 2) {
    merges.replace(at, 1, "\r\n");
  }
  write_text(dir / "old" / "merges.txt", merges);
  CHECK(make_tokenizer((dir / "old").string())->fingerprint() == published->fingerprint());
  CHECK(make_tokenizer("gpt2", dir / "old")->fingerprint() == published->fingerprint());
}

// Merging by a list of merges (Hugging Face) and by the rank of what comes out (tiktoken) give the
// same ids where every token's own bytes merge back into it.
TEST_CASE("every GPT-2 token merges back into itself", "[tokenizer]") {
  REQUIRE_GPT2(folder);
  const auto tokenizer = load_gpt2_tokenizer(*folder);
  const BpeVocabulary& vocabulary = dynamic_cast<const BpeTokenizer&>(*tokenizer).vocabulary();
  const PairTable pairs(vocabulary.merges);
  std::array<int32_t, 256> byte_ids{};
  for (int32_t id = 0; id < 256; ++id) {
    byte_ids[static_cast<uint8_t>(vocabulary.tokens[static_cast<size_t>(id)][0])] = id;
  }
  MergeScratch scratch;
  std::vector<int32_t> ids;
  int64_t n_wrong = 0;
  for (int32_t id = 0; id < 50256; ++id) {
    ids.clear();
    merge_piece(vocabulary.tokens[static_cast<size_t>(id)], byte_ids.data(), pairs, scratch, ids);
    n_wrong += ids == std::vector<int32_t>{id} ? 0 : 1;
  }
  CHECK(n_wrong == 0);
}

TEST_CASE("a missing or foreign GPT-2 vocabulary is named, with what brings it", "[tokenizer]") {
  const TempDir dir;
  CHECK_THROWS_WITH(
      make_tokenizer("gpt2", dir.path()),
      ContainsSubstring("scripts/fetch_gpt2_vocab.sh") && ContainsSubstring(dir.path().string()));
  REQUIRE_GPT2(folder);
  std::filesystem::copy(*folder / "encoder.json", dir / "encoder.json");
  const std::string merges = read_text(*folder / "vocab.bpe");
  write_text(dir / "vocab.bpe", merges.substr(0, merges.size() / 2));
  CHECK_THROWS_WITH(make_tokenizer("gpt2", dir.path()), ContainsSubstring("is not GPT-2's"));
  write_text(dir / "vocab.bpe", merges + "zz qqqq\n");
  CHECK_THROWS_WITH(make_tokenizer("gpt2", dir.path()),
                    ContainsSubstring("merge 50000 needs the token \"zzqqqq\""));
}
