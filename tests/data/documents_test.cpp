// tril prepare on many files: documents, JSON lines, compressed files, shards, splits, threads.

#include <algorithm>
#include <random>
#include <set>
#include <sstream>

#include "support/catch.h"
#include "support/compress.h"
#include "support/gpt2_vocabulary.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/input_files.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/bpe_tokenizer.h"
#include "tril/tokenizer/byte_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

std::string as_text(const std::vector<fs::path>& files) {
  std::vector<TokenFile> parts;
  for (const fs::path& file : files) parts.push_back(TokenFile::open(file));
  const auto tokenizer = load_tokenizer(files.front().parent_path() / "tokenizer.json");
  return tokenizer->decode(all_ids(TokenFile::join(parts)));
}

std::string train_text(const fs::path& folder) {
  return as_text({folder / "train.tokens"});
}

/// Bytes of every file below a folder, by name.
std::string whole_folder(const fs::path& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.insert(entry.path());
  std::string all;
  for (const fs::path& file : files) all += file.filename().string() + "\n" + read_text(file);
  return all;
}

std::string error_of(const PrepareOptions& options) {
  try {
    prepare(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Words of random letters, in documents of random length; the same for the same seed.
std::vector<std::string> random_documents(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> documents;
  for (int i = 0; i < n; ++i) {
    std::string text;
    const auto n_words = 1 + random() % 400;
    for (unsigned w = 0; w < n_words; ++w) {
      for (unsigned c = 0; c < 1 + random() % 9; ++c)
        text += static_cast<char>('a' + random() % 26);
      text += random() % 12 == 0 ? '\n' : ' ';
      if (random() % 50 == 0) text += "\u65e5\u672c\u8a9e \U0001F600 ";
    }
    documents.push_back(text);
  }
  return documents;
}

/// A tokenizer.json with all bytes, three merges and an end-of-text, which is id 259.
fs::path write_bpe(const fs::path& path) {
  BpeVocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"th", "the", " the", "<|endoftext|>"});
  vocabulary.merges = {{'t', 'h', 256}, {256, 'e', 257}, {' ', 257, 258}};
  vocabulary.special = {{"<|endoftext|>", 259}};
  return write_text(path, dump_json(BpeTokenizer(vocabulary).to_json()));
}

std::string json_line(const std::string& text) {
  return Json{{"id", 7}, {"meta", {{"text", "not this"}}}, {"text", text}}.dump() + "\n";
}

}  // namespace

TEST_CASE("files, folders and patterns are found in a fixed order", "[data]") {
  const TempDir dir;
  fs::create_directories(dir / "texts" / "b");
  fs::create_directories(dir / "texts" / ".git");
  for (const char* name : {"texts/z.txt",
                           "texts/a.jsonl.zst",
                           "texts/b/c.txt.gz",
                           "texts/Z.jsonl",
                           "texts/.git/x.txt",
                           "texts/skip.bin",
                           "more1.md",
                           "more2.md"}) {
    write_text(dir / name, "x");
  }
  write_text(dir / "texts/empty.txt", "");
  std::vector<std::string> notices;
  const auto found =
      find_input_files({dir / "more2.md", dir / "texts", (dir / "more*.md").string()},
                       [&](const std::string& text) { notices.push_back(text); });
  std::vector<std::string> names;
  for (const InputFile& file : found) names.push_back(fs::relative(file.path, dir.path()).string());
  CHECK(names == std::vector<std::string>{"more2.md",
                                          "texts/Z.jsonl",
                                          "texts/a.jsonl.zst",
                                          "texts/b/c.txt.gz",
                                          "texts/z.txt",
                                          "more1.md",
                                          "more2.md"});
  CHECK(found[1].kind == InputFile::Kind::kJsonLines);
  CHECK(found[2].kind == InputFile::Kind::kJsonLines);
  CHECK(found[3].kind == InputFile::Kind::kText);
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[0], ContainsSubstring("1 empty file is left out"));
  CHECK_THAT(notices[1], ContainsSubstring("more2.md' is given more than once"));
  CHECK_THROWS_WITH(find_input_files({(dir / "no*.txt").string()}),
                    ContainsSubstring("no text file matches the pattern"));
  fs::create_directory(dir / "bare");
  CHECK_THROWS_WITH(find_input_files({dir / "bare"}), ContainsSubstring("holds no text"));
}

TEST_CASE("JSON lines give their documents, a newline after each", "[data]") {
  const TempDir dir;
  const std::string lines =
      "{\"text\": \"first\", \"n\": [1, {\"text\": 2}]}\r\n"
      "\n"
      "{\"other\": null, \"text\": \"se\\u0063ond \\ud83d\\ude00\"}\n"
      "  \t\n"
      "{\"text\": \"\"}\n"
      "{\"text\": \"last, without a line end\"}";
  const auto input = write_text(dir / "in.jsonl", lines);
  const PrepareResult result =
      prepare({.inputs = {input}, .tokenizer = "char", .validation_fraction = 0, .out = dir / "o"});
  CHECK(train_text(dir / "o") == "first\nsecond \U0001F600\nlast, without a line end\n");
  CHECK(result.train.documents == 3);
  CHECK_FALSE(result.running_text);
  CHECK(result.train.text_bytes == static_cast<int64_t>(train_text(dir / "o").size()));
}

TEST_CASE("another field of JSON lines can be named", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.jsonl", "{\"text\": \"no\", \"body\": \"yes\"}\n");
  prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "o", .field = "body"});
  CHECK(train_text(dir / "o") == "yes\n");
  const std::string message = error_of({.inputs = {input}, .out = dir / "p", .field = "content"});
  CHECK_THAT(message, ContainsSubstring("line 1 of '" + input.string() + "'"));
  CHECK_THAT(message, ContainsSubstring("no key \"content\", but: text, body"));
  CHECK_THAT(message, ContainsSubstring("--field"));
}

TEST_CASE("a fault in JSON lines is named by file and line", "[data]") {
  const TempDir dir;
  const std::string good =
      repeat("{\"text\": \"some text that is good\"}\n", 60'000);  // two blocks
  struct Case {
    std::string line;
    std::string problem;
  };
  const std::vector<Case> cases{
      {"{\"text\": \"cut", "no valid JSON at byte"},
      {"{\"text\": 5}", "\"text\" must be a string, found a number"},
      {"{\"text\": [\"a\"]}", "\"text\" must be a string, found a list"},
      {"{\"text\": {\"a\": 1}}", "\"text\" must be a string, found an object"},
      {"[\"text\"]", "expected an object, found a list"},
      {"\"text\"", "expected an object, found a string"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "stands there twice"},
      {"{\"text\": \"a\"} trailing", "no valid JSON"},
      {"{\"text\": \"\xff\"}", "no valid JSON"},
      {"{\"text\": \"\\ud800 alone\"}", "no valid JSON"},
      {"{}", "no key \"text\", but: none"},
      {repeat("[", 100'000), "expected an object"},
      {"{\"a\":" + repeat("[", 100'000), "no valid JSON"},
  };
  for (const Case& bad : cases) {
    const auto input = write_text(dir / "in.jsonl", good + bad.line + "\n" + good);
    const std::string message =
        error_of({.inputs = {input}, .tokenizer = "byte", .out = dir / "o", .threads = 3});
    CHECK_THAT(message, ContainsSubstring("line 60001 of") && ContainsSubstring(bad.problem));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 600);
    CHECK_FALSE(fs::exists(dir / "o"));
  }
  // The first fault wins, whichever thread meets its one first.
  const auto two = write_text(dir / "in.jsonl", good + "{1}\n" + good + "{2}\n");
  CHECK_THAT(error_of({.inputs = {two}, .tokenizer = "byte", .out = dir / "o", .threads = 4}),
             ContainsSubstring("line 60001 of"));
}

TEST_CASE("line ends inside JSON lines are kept or made uniform like all others", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.jsonl", "{\"text\": \"a\\r\\nb\\rc\"}\r\n");
  const PrepareResult kept =
      prepare({.inputs = {input}, .validation_fraction = 0, .out = dir / "k"});
  CHECK(train_text(dir / "k") == "a\r\nb\rc\n");
  CHECK(kept.carriage_returns.crlf == 1);
  CHECK(kept.carriage_returns.lone == 1);
  prepare({.inputs = {input},
           .validation_fraction = 0,
           .out = dir / "n",
           .newlines = Newlines::kNormalize});
  CHECK(train_text(dir / "n") == "a\nb\nc\n");
}

TEST_CASE("a separator cuts a text into documents, wherever it falls", "[data]") {
  const TempDir dir;
  const std::string separator = "<|end|>";
  // Documents whose ends lie around the borders of a block and of what is read at once.
  const int border = GENERATE(1 << 18, 1 << 20);
  for (const int shift : {-8, -7, -3, -1, 0, 1, 6, 7}) {
    const std::string first(static_cast<size_t>(border + shift), 'a');
    const std::string text = first + separator + separator + "<|en" + separator + "tail<|end|";
    const auto input = write_text(dir / "in.txt", text);
    const PrepareResult result = prepare({.inputs = {input},
                                          .tokenizer = "byte",
                                          .validation_fraction = 0,
                                          .out = dir / "o",
                                          .overwrite = true,
                                          .separator = separator});
    CHECK(first_difference(train_text(dir / "o"), first + "\n<|en\ntail<|end|\n") == -1);
    CHECK(result.train.documents == 3);
  }
}

#if TRIL_HAS_ZLIB && TRIL_HAS_ZSTD
TEST_CASE("compressed files give what they hold", "[data]") {
  const TempDir dir;
  std::string text;
  for (const std::string& document : random_documents(3000, 1)) text += document;
  REQUIRE(text.size() > (2U << 20));
  const size_t half = text.size() / 2 + 1;
  const std::string zeros(512, '\0');
  write_text(dir / "plain.txt", text);
  write_text(dir / "one.txt.gz", gzip(text));
  write_text(dir / "members.txt.gz", gzip(text.substr(0, half)) + gzip(text.substr(half)) + zeros);
  write_text(dir / "one.txt.zst", zstd(text));
  write_text(dir / "frames.txt.zst", zstd(text.substr(0, half)) + zstd(text.substr(half)));
  prepare({.inputs = {dir / "plain.txt"}, .out = dir / "plain"});
  for (const char* name : {"one.txt.gz", "members.txt.gz", "one.txt.zst", "frames.txt.zst"}) {
    prepare({.inputs = {dir / name}, .out = dir / "out", .overwrite = true});
    CHECK(first_difference(whole_folder(dir / "out"), whole_folder(dir / "plain")) == -1);
  }
}

TEST_CASE("a damaged compressed file is refused by name", "[data]") {
  const TempDir dir;
  const std::string text = repeat("some text\n", 50'000);
  const std::string packed = gzip(text);
  std::string wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  const std::string frame = zstd(text);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"cut.txt.gz", packed.substr(0, packed.size() / 2)},
      {"tail.txt.gz", packed.substr(0, packed.size() - 3)},
      {"sum.txt.gz", wrong_sum},
      {"plain.txt.gz", text},
      {"garbage.txt.gz", packed + "garbage"},
      {"empty_member.txt.gz", gzip("").substr(0, 5)},
      {"cut.txt.zst", frame.substr(0, frame.size() / 2)},
      {"tail.txt.zst", frame.substr(0, frame.size() - 1)},
      {"plain.txt.zst", text},
      {"garbage.txt.zst", frame + "garbage"}};
  for (const auto& [name, bytes] : cases) {
    write_text(dir / name, bytes);
    const std::string message =
        error_of({.inputs = {dir / name}, .tokenizer = "byte", .out = dir / "out"});
    CHECK_THAT(message, ContainsSubstring(name) && ContainsSubstring("cannot be read as a"));
    CHECK_FALSE(fs::exists(dir / "out"));
  }
  write_text(dir / "nothing.txt.gz", gzip(""));
  CHECK_THAT(error_of({.inputs = {dir / "nothing.txt.gz"}, .out = dir / "out"}),
             ContainsSubstring("nothing.txt.gz") && ContainsSubstring("holds no text"));
  CHECK_FALSE(fs::exists(dir / "out"));
}

TEST_CASE("a small file that unpacks to much takes little memory", "[data]") {
  const TempDir dir;
  // 64 MiB of one letter in 64 KiB: read through in pieces.
  write_text(dir / "bomb.txt.gz", gzip(std::string(64U << 20, 'a')));
  const PrepareResult result =
      prepare({.inputs = {dir / "bomb.txt.gz"}, .tokenizer = "byte", .out = dir / "out"});
  CHECK(result.train.tokens + result.validation->tokens == 64 << 20);
}

TEST_CASE("the result does not depend on the number of threads", "[data]") {
  const TempDir dir;
  const auto documents = random_documents(2500, 2);
  std::string lines;
  std::string text;
  for (size_t i = 0; i < documents.size(); ++i) {
    (i % 2 == 0 ? lines : text) += i % 2 == 0 ? json_line(documents[i]) : documents[i];
  }
  write_text(dir / "a.jsonl.zst", zstd(lines));
  write_text(dir / "b.txt.gz", gzip(text));
  write_text(dir / "c.txt", "short \r\n");
  std::vector<std::string> results;
  for (const int threads : {1, 2, 7}) {
    for (const SplitBy split : {SplitBy::kShare, SplitBy::kDocument}) {
      prepare({.inputs = {dir.path()},
               .out = dir / "out",
               .overwrite = true,
               .newlines = Newlines::kNormalize,
               .split = split,
               .shard_tokens = 300'000,
               .threads = threads});
      results.push_back(whole_folder(dir / "out"));
      fs::remove_all(dir / "out");
    }
  }
  for (size_t i = 2; i < results.size(); ++i) {
    CHECK(first_difference(results[i], results[i % 2]) == -1);
  }
  CHECK(results[0] != results[1]);
}
#endif

TEST_CASE("shards hold the same stream, each the asked number of ids", "[data]") {
  const TempDir dir;
  std::string text;
  for (const std::string& document : random_documents(300, 3)) text += document;
  const auto input = write_text(dir / "in.txt", text);
  const PrepareResult whole =
      prepare({.inputs = {input}, .tokenizer = "byte", .out = dir / "whole"});
  const PrepareResult sharded = prepare(
      {.inputs = {input}, .tokenizer = "byte", .out = dir / "shards", .shard_tokens = 100'000});
  CHECK(sharded.train.tokens == whole.train.tokens);
  REQUIRE(sharded.train.files == (whole.train.tokens + 99'999) / 100'000);
  std::vector<fs::path> shards;
  int64_t bytes = 0;
  for (int64_t i = 0; i < sharded.train.files; ++i) {
    shards.push_back(dir / ("shards/train_0000" + std::to_string(i) + ".tokens"));
    const TokenFileHeader header = TokenFile::open(shards.back()).header();
    CHECK(header.shard == i);
    CHECK(header.n_shards == sharded.train.files);
    if (i + 1 < sharded.train.files) CHECK(header.count == 100'000);
    bytes += header.text_bytes;
  }
  CHECK(bytes == whole.train.text_bytes);
  CHECK(first_difference(as_text(shards), train_text(dir / "whole")) == -1);
  CHECK(fs::exists(dir / "shards/validation_00000.tokens"));
  CHECK_FALSE(fs::exists(dir / "shards/train.tokens"));

  // An overwrite with fewer shards leaves none of the old ones.
  prepare({.inputs = {input},
           .tokenizer = "byte",
           .validation_fraction = 0,
           .out = dir / "shards",
           .overwrite = true});
  CHECK(count_entries(dir / "shards") == 2);
}

TEST_CASE("a split by document takes whole ones, evenly spread", "[data]") {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += json_line("document " + std::to_string(i));
  const auto input = write_text(dir / "in.jsonl", lines);
  for (const double fraction : {0.01, 0.1, 0.5, 0.9}) {
    const PrepareResult result = prepare(
        {.inputs = {input}, .validation_fraction = fraction, .out = dir / "o", .overwrite = true});
    CHECK(result.train.documents + result.validation->documents == 1000);
    CHECK(static_cast<double>(result.validation->documents) == Approx(1000 * fraction).margin(1));
    // Every document is in one part, whole.
    std::set<std::string> seen;
    for (const char* part : {"train.tokens", "validation.tokens"}) {
      std::istringstream stream(as_text({dir / "o" / part}));
      std::string previous;
      int n_out_of_order = 0;
      for (std::string line; std::getline(stream, line);) {
        CHECK(seen.insert(line).second);
        n_out_of_order += previous.size() > line.size() ? 1 : 0;
        previous = line;
      }
      CHECK(n_out_of_order == 0);
    }
    CHECK(seen.size() == 1000);
  }
  // Both halves of the corpus are in the validation part, about equally.
  prepare({.inputs = {input}, .validation_fraction = 0.1, .out = dir / "o", .overwrite = true});
  std::istringstream stream(as_text({dir / "o/validation.tokens"}));
  int n_first_half = 0;
  for (std::string line; std::getline(stream, line);)
    n_first_half += std::stoi(line.substr(9)) < 500;
  CHECK(n_first_half == 50);
}

TEST_CASE("a split by share takes the last documents", "[data]") {
  const TempDir dir;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += json_line(std::string(9, static_cast<char>('0' + i / 10)));
  const auto input = write_text(dir / "in.jsonl", lines);
  const PrepareResult result =
      prepare({.inputs = {input}, .out = dir / "o", .split = SplitBy::kShare});
  CHECK(result.validation->documents == 10);
  CHECK(as_text({dir / "o/validation.tokens"}) == repeat("999999999\n", 10));
}

TEST_CASE("several text files are one text, unless a split by document makes them documents",
          "[data]") {
  const TempDir dir;
  std::vector<fs::path> inputs;
  for (int i = 0; i < 10; ++i) {
    inputs.push_back(write_text(dir / (std::to_string(i) + ".txt"), repeat(std::to_string(i), 10)));
  }
  CHECK(prepare({.inputs = inputs, .out = dir / "one"}).running_text);
  CHECK(as_text({dir / "one/validation.tokens"}) == repeat("9", 10));
  const PrepareResult result =
      prepare({.inputs = inputs, .out = dir / "ten", .split = SplitBy::kDocument});
  CHECK(result.train.documents == 9);
  const std::string validation = as_text({dir / "ten/validation.tokens"});
  CHECK(validation == std::string(10, validation.front()));
}

TEST_CASE("a part that would be empty is refused, and nothing is left", "[data]") {
  const TempDir dir;
  const auto one = write_text(dir / "one.txt", "a");
  CHECK_THAT(error_of({.inputs = {one}, .out = dir / "o"}),
             ContainsSubstring("the training part would be empty") && ContainsSubstring("1 byte") &&
                 ContainsSubstring("--validation-fraction"));
  const auto wide = write_text(dir / "wide.txt", "a\u65e5");  // the cut moves behind the character
  CHECK_THAT(error_of({.inputs = {wide}, .out = dir / "o"}),
             ContainsSubstring("the validation part would be empty"));
  const auto few = write_text(dir / "few.jsonl", json_line("a") + json_line("b"));
  CHECK_THAT(error_of({.inputs = {few}, .validation_fraction = 0.001, .out = dir / "o"}),
             ContainsSubstring("2 documents") && ContainsSubstring("--split share"));
  const auto blank = write_text(dir / "blank.jsonl", "\n{\"text\": \"\"}\n\n");
  CHECK_THAT(
      error_of(
          {.inputs = {blank}, .tokenizer = "byte", .validation_fraction = 0, .out = dir / "o"}),
      ContainsSubstring("holds no text"));
  CHECK_FALSE(fs::exists(dir / "o"));
}

TEST_CASE("a fault is named by its own file among many", "[data]") {
  const TempDir dir;
  std::vector<fs::path> inputs;
  for (int i = 0; i < 5; ++i) {
    inputs.push_back(write_text(dir / (std::to_string(i) + ".txt"),
                                i == 3 ? "good\xff" : repeat("good\n", 1000)));
  }
  for (const SplitBy split : {SplitBy::kShare, SplitBy::kDocument}) {
    CHECK_THAT(error_of({.inputs = inputs, .out = dir / "o", .split = split, .threads = 2}),
               ContainsSubstring("byte 0xFF at offset 4 of '" + inputs[3].string() + "'"));
  }
  const auto lines = write_text(dir / "in.jsonl", json_line("abc") + json_line("abd"));
  const auto abc = write_text(dir / "abc.json",
                              R"({"type":"char","version":1,"vocabulary":["\n","a","b","c"]})");
  CHECK_THAT(error_of({.inputs = {lines}, .tokenizer = abc.string(), .out = dir / "o"}),
             ContainsSubstring("'d' (U+0064) at offset 2 of the text in line 2 of '" +
                               lines.string() + "'"));
}

TEST_CASE("an end-of-text id stands after every document, and after no running text", "[data]") {
  const TempDir dir;
  const std::string bpe = write_bpe(dir / "bpe.json").string();
  const auto a = write_text(dir / "a.txt", "the a");
  const auto b = write_text(dir / "b.txt", "of the");
  const auto lines = write_text(dir / "c.jsonl", json_line("the") + json_line("") + json_line("x"));
  const auto train_ids = [&](const std::vector<fs::path>& inputs, const std::string& separator) {
    prepare({.inputs = inputs,
             .tokenizer = bpe,
             .validation_fraction = 0,
             .out = dir / "o",
             .overwrite = true,
             .separator = separator});
    const TokenFile file = TokenFile::open(dir / "o/train.tokens");
    CHECK(file.header().end_of_text == 259);
    return all_ids(file);
  };
  using Ids = std::vector<int64_t>;
  CHECK(train_ids({a}, "") == Ids{257, ' ', 'a'});
  CHECK(train_ids({a, b}, "") == Ids{257, ' ', 'a', 259, 'o', 'f', 258, 259});
  CHECK(train_ids({lines}, "") == Ids{257, 259, 'x', 259});
  CHECK(train_ids({a}, " ") == Ids{257, 259, 'a', 259});
  // Text bytes are those of the text.
  CHECK(TokenFile::open(dir / "o/train.tokens").header().text_bytes == 4);
  train_ids({a, b, lines}, "");
  const TokenFileSummary summary = describe_token_file(dir / "o/train.tokens");
  CHECK(summary.documents == 4);
  CHECK(summary.longest_document == 3);
}

TEST_CASE("the text of a special token is text, or its id when asked for", "[data]") {
  const TempDir dir;
  const auto input = write_text(dir / "in.txt", "a<|endoftext|>b");
  const std::string bpe = write_bpe(dir / "bpe.json").string();
  prepare({.inputs = {input}, .tokenizer = bpe, .validation_fraction = 0, .out = dir / "text"});
  CHECK(TokenFile::open(dir / "text/train.tokens").size() == 15);
  prepare({.inputs = {input},
           .tokenizer = bpe,
           .special = SpecialText::kBecomesId,
           .validation_fraction = 0,
           .out = dir / "id"});
  CHECK(all_ids(TokenFile::open(dir / "id/train.tokens")) == std::vector<int64_t>{'a', 259, 'b'});
}

TEST_CASE("BPE ids do not depend on where the text was cut for the threads", "[data]") {
  const TempDir dir;
  const std::string bpe = write_bpe(dir / "bpe.json").string();
  std::string text;  // 3 MB, with a stretch of 1.5 MB that cannot be cut
  for (const std::string& document : random_documents(1200, 4)) text += "the " + document;
  text.insert(text.size() / 3, std::string(1'500'000, 'q'));
  const auto input = write_text(dir / "in.txt", text);
  prepare({.inputs = {input},
           .tokenizer = bpe,
           .validation_fraction = 0,
           .out = dir / "o",
           .threads = 3});
  const auto tokenizer = load_tokenizer(bpe);
  const std::vector<int32_t> expected = tokenizer->encode(text);
  const std::vector<int64_t> ids = all_ids(TokenFile::open(dir / "o/train.tokens"));
  REQUIRE(ids.size() == expected.size());
  CHECK(std::equal(ids.begin(), ids.end(), expected.begin()));
}

TEST_CASE("GPT-2's ids of the known small corpus are those everybody has", "[data]") {
  const auto folder = gpt2_folder();
  const auto text = shared_data("tinyshakespeare.txt");
  if (!folder || !text) TRIL_SKIP("tinyshakespeare.txt or GPT-2's vocabulary is not here");
  const TempDir dir;
  const PrepareResult result =
      prepare({.inputs = {*text}, .tokenizer = "gpt2", .vocab = *folder, .out = dir / "o"});
  // nanoGPT's data/shakespeare/prepare.py, which cuts at the same byte, has the same counts.
  CHECK(result.train.tokens == 301'966);
  CHECK(result.validation->tokens == 36'059);
}
