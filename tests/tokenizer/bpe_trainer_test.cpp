#include "tril/tokenizer/bpe_trainer.h"

#include <fmt/format.h>

#include <map>
#include <random>

#include "support/catch.h"
#include "support/gpt2_strings.h"
#include "support/text_files.h"

using namespace tril;
using namespace tril::testing;

namespace {

BpeVocabulary learn(const std::vector<std::string>& texts,
                    BpeTrainOptions options,
                    size_t chunk_bytes = 1000) {
  BpeTrainer trainer(std::move(options));
  for (const std::string& text : texts) {
    for (size_t at = 0; at < text.size(); at += chunk_bytes) {
      trainer.add(std::string_view(text).substr(at, chunk_bytes));
    }
    trainer.end_text();
  }
  return trainer.train();
}

/// "left right" of each merge, as a tokenizer.json has it.
std::vector<std::string> merges_of(const BpeVocabulary& vocabulary) {
  std::vector<std::string> merges;
  for (const BpeMerge& merge : vocabulary.merges) {
    merges.push_back(gpt2_characters(vocabulary.tokens[static_cast<size_t>(merge.left)]) + " " +
                     gpt2_characters(vocabulary.tokens[static_cast<size_t>(merge.right)]));
  }
  return merges;
}

std::vector<std::string> merges_of_text(const std::string& text, int64_t n_merges) {
  return merges_of(learn({text}, {.vocab_size = 257 + n_merges, .min_frequency = 1}));
}

std::string fingerprint_of(BpeVocabulary vocabulary) {
  return BpeTokenizer(std::move(vocabulary)).fingerprint();
}

/// The lines of make_bpe_golden.py.
std::vector<std::string> golden_words(const Json& golden, uint64_t seed, int64_t n_texts) {
  const auto syllables = golden.at("syllables").get<std::vector<std::string>>();
  GoldenRandom random(seed);
  std::vector<std::string> texts;
  for (; n_texts > 0; --n_texts) {
    std::string text;
    for (uint64_t n = 1 + random.draw(12); n > 0; --n) {
      for (uint64_t k = 1 + random.draw(4); k > 0; --k) {
        const uint64_t first = random.draw(syllables.size());
        text += syllables[std::min(first, random.draw(syllables.size()))];
      }
      text += n > 1 ? " " : "\n";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

/// By the book: count all pairs anew for every merge. Words of letters only, each with its space.
std::vector<std::string> learn_plainly(const std::string& text, size_t n_merges) {
  std::vector<std::vector<std::string>> words;
  for (const char c : text) {
    if (c == ' ' || words.empty()) words.emplace_back();
    words.back().push_back(gpt2_characters(std::string(1, c)));
  }
  // Ties are told by ids; here by the order in which tokens were made.
  std::map<std::string, size_t> id_of;
  std::vector<std::string> merges;
  std::vector<std::string> alphabet;
  for (int b = 0; b < 256; ++b) {
    alphabet.push_back(gpt2_characters(std::string(1, static_cast<char>(b))));
  }
  std::sort(alphabet.begin(), alphabet.end());
  for (const std::string& token : alphabet) id_of.emplace(token, id_of.size());
  while (merges.size() < n_merges) {
    std::map<std::pair<size_t, size_t>, int64_t> counts;
    for (const auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{id_of[word[i]], id_of[word[i + 1]]}];
    }
    std::pair<size_t, size_t> best;
    int64_t best_count = 1;
    for (const auto& [pair, count] : counts) {
      if (count > best_count) {
        best = pair;
        best_count = count;
      }
    }
    if (best_count < 2) break;
    std::string left;
    std::string right;
    for (const auto& [token, id] : id_of) {
      if (id == best.first) left = token;
      if (id == best.second) right = token;
    }
    merges.push_back(left + " " + right);
    id_of.emplace(left + right, id_of.size());
    for (auto& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] += right;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return merges;
}

}  // namespace

TEST_CASE("of equally frequent pairs the smallest merges first", "[tokenizer]") {  // CASES C17
  const std::vector<std::string> expected = {"c c", "d d", "a a", "b b"};
  CHECK(merges_of_text("bbbaaaddddcccc", 4) == expected);
  CHECK(merges_of_text("aaabbbccccdddd", 4) == expected);
}

TEST_CASE("learning does what counting anew for every merge does", "[tokenizer]") {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    std::string text;
    const size_t n_letters = 1 + random() % 4;
    for (size_t k = 20 + random() % 300; k > 0; --k) {
      text += random() % 6 == 0 && !text.empty() && text.back() != ' '
                  ? ' '
                  : static_cast<char>('a' + random() % n_letters);
    }
    while (text.back() == ' ') text.pop_back();
    INFO(text);
    const auto vocabulary = learn({text}, {.vocab_size = 300, .special = {}});
    CHECK(merges_of(vocabulary) == learn_plainly(text, 44));
    // What was learned is what encodes: the text comes back.
    const BpeTokenizer tokenizer(vocabulary);
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("Hugging Face's tokenizers learns the same merges", "[tokenizer][golden]") {
  const Json golden = read_json_file(
      std::filesystem::path(TRIL_SOURCE_DIR) / "tests/golden/bpe_trainer.json", FileRole::kData);
  const Json& words = golden.at("words");
  const auto texts =
      golden_words(golden, words.at("seed").get<uint64_t>(), words.at("texts").get<int64_t>());
  const auto n_ids = words.at("vocab_size").get<int64_t>();
  CHECK(merges_of(learn(texts, {.vocab_size = n_ids, .special = {}})) ==
        words.at("merges").get<std::vector<std::string>>());

  const Json& strings = golden.at("strings");
  Strings generator(strings.at("seed").get<uint64_t>());
  std::vector<std::string> others;
  for (int64_t i = strings.at("texts").get<int64_t>(); i > 0; --i) {
    others.push_back(generator.next());
  }
  CHECK(merges_of(learn(others,
                        {.vocab_size = strings.at("vocab_size").get<int64_t>(), .special = {}})) ==
        strings.at("merges").get<std::vector<std::string>>());
}

TEST_CASE("a learned vocabulary does not depend on threads, order or chunks", "[tokenizer]") {
  Strings generator(99);
  std::vector<std::string> texts(4);
  for (std::string& text : texts) {
    while (text.size() < 700'000) text += generator.next() + " word";
  }
  const BpeTrainOptions options{.vocab_size = 600};
  const std::string expected = fingerprint_of(learn(texts, options));
  CHECK(fingerprint_of(learn(texts, options, 1)) == expected);
  CHECK(fingerprint_of(learn(texts, options, 5'000'000)) == expected);
  std::swap(texts[0], texts[3]);
  BpeTrainOptions threaded = options;
  threaded.threads = 3;
  CHECK(fingerprint_of(learn(texts, threaded)) == expected);
}

TEST_CASE("long pieces are thinned out alike in any order when memory is short", "[tokenizer]") {
  std::mt19937 random(6);
  std::vector<std::string> texts(4);
  for (std::string& text : texts) {
    for (int i = 0; i < 40'000; ++i) {
      // Thousands of different long words, and a few short ones.
      const auto number = static_cast<unsigned>(random() % 30'000);
      text += fmt::format(
          " {}{}", number % 3 == 0 ? "it" : "wonderfully", std::string(1 + number % 7, 'z'));
      for (unsigned rest = number; rest > 0; rest /= 20) {
        text += static_cast<char>('a' + rest % 20);
      }
    }
  }
  BpeTrainOptions options{.vocab_size = 600};
  const std::string all = fingerprint_of(learn(texts, options));
  options.piece_memory_bytes = 1'000'000;
  const std::string thinned = fingerprint_of(learn(texts, options));
  CHECK(thinned != all);
  options.threads = 3;
  std::swap(texts[1], texts[2]);
  CHECK(fingerprint_of(learn(texts, options, 12345)) == thinned);
  options.piece_memory_bytes = 50'000;
  CHECK_THROWS_AS(learn(texts, options), ResourceError);
}

TEST_CASE("bytes, merges and special tokens are numbered in this order", "[tokenizer]") {
  const auto vocabulary =
      learn({"abab abab abab"}, {.vocab_size = 260, .special = {"<|a|>", "<|b|>"}});
  const BpeTokenizer tokenizer(vocabulary);
  CHECK(tokenizer.vocab_size() == 260);
  CHECK(tokenizer.token_bytes(0) == "!");  // as in GPT-2's vocabulary
  CHECK(tokenizer.token_bytes(256) == "ab");
  CHECK(tokenizer.token_bytes(257) == "abab");
  CHECK(tokenizer.token_bytes(258) == "<|a|>");
  CHECK(tokenizer.token_bytes(259) == "<|b|>");
  CHECK(tokenizer.end_of_text() == -1);
  CHECK(tokenizer.start_token() == tokenizer.encode("\n")[0]);
}

TEST_CASE("no merge goes over the end of a piece or of a text", "[tokenizer]") {
  BpeTrainer trainer({.vocab_size = 300, .special = {}});
  for (int i = 0; i < 10; ++i) {
    trainer.add("x");
    trainer.end_text();
  }
  CHECK(trainer.train().merges.empty());
  // " y" occurs three times; "y" never meets the space behind it.
  CHECK(merges_of(learn({"y yy yy y"}, {.vocab_size = 300, .special = {}})) ==
        std::vector<std::string>{"\u0120 y", "\u0120y y"});
}

TEST_CASE("special tokens in a training text are text, or ends of texts", "[tokenizer]") {
  const std::string text = repeat("q<|endoftext|>", 20);
  const auto as_text = learn({text}, {.vocab_size = 300});
  CHECK(std::find(as_text.tokens.begin(), as_text.tokens.end(), "endoftext") !=
        as_text.tokens.end());
  CHECK(learn({text}, {.vocab_size = 300, .special_text = SpecialText::kBecomesId}, 3)
            .merges.empty());
}

TEST_CASE("a text without spaces is learned from in one piece", "[tokenizer]") {
  std::mt19937 random(8);
  std::string text(1'000'000, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 20);
  const auto vocabulary = learn({text}, {.vocab_size = 1500}, 100'000);
  CHECK(vocabulary.tokens.size() == 1500);
  CHECK(merges_of_text(std::string(1'000'000, 'a'), 3) ==
        std::vector<std::string>{"a a", "aa aa", "aaaa aaaa"});
}

TEST_CASE("what cannot be learned is refused", "[tokenizer]") {
  CHECK_THROWS_WITH(BpeTrainer({.vocab_size = 256}), ContainsSubstring("expected 257"));
  CHECK_THROWS_AS(BpeTrainer({.vocab_size = kMaxBpeVocabulary + 1}), ConfigError);
  CHECK_THROWS_AS(BpeTrainer({.vocab_size = 300, .special = {"<|a|>", "<|a|>"}}), ConfigError);
  CHECK_THROWS_AS(BpeTrainer({.vocab_size = 300, .special = {""}}), ConfigError);
  CHECK_THROWS_WITH(BpeTrainer({.vocab_size = 300}).train(), ContainsSubstring("no text"));
  BpeTrainer stopped({.vocab_size = 300});
  stopped.add("aaaa aaaa");
  CHECK_THROWS_AS(stopped.train({}, [] { return true; }), BpeTrainer::Stopped);
}
