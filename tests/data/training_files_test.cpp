// data.train as a list with weights, as shards, patterns and prepared folders.

#include <set>

#include "support/catch.h"
#include "support/data_test.h"
#include "tril/data/prepare.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

DataConfig of_list(std::vector<WeightedFile> files) {
  DataConfig config;
  config.train = TrainFiles(std::move(files));
  return config;
}

std::string text_of(const TrainingData& data, const TokenFile& file) {
  return data.tokenizer->decode(all_ids(file));
}

}  // namespace

TEST_CASE("several texts share one vocabulary, and windows come from each by weight", "[data]") {
  const DataTest test;
  DataConfig config = of_list({{test.text("a.txt", repeat("ab", 50)).string(), 3},
                               {test.text("b.txt", repeat("xyz", 100)).string(), 1}});
  config.validation_fraction = 0.1;
  const TrainingData data = open_data(config, 8);
  CHECK(data.tokenizer->vocab_size() == 5);
  CHECK(text_of(data, data.train) == repeat("ab", 45) + repeat("xyz", 90));
  CHECK(text_of(data, *data.validation) == repeat("ab", 5) + repeat("xyz", 10));
  REQUIRE(data.train_parts.size() == 2);
  CHECK(data.train_parts[1].begin == 90);

  const WindowSampler windows = data.windows(Sampling::kShuffle, 8, 1);
  std::vector<int64_t> ids(9);
  int n_first = 0;
  for (int64_t g = 0; g < 1000; ++g) {
    data.train.read(windows.start(g), ids);
    const std::string text = data.tokenizer->decode(ids);
    const bool first = text.find_first_of("xyz") == std::string::npos;
    CHECK((first || text.find_first_of("ab") == std::string::npos));  // never of both
    n_first += first ? 1 : 0;
  }
  CHECK(n_first == Approx(750).margin(60));
}

TEST_CASE("a BPE vocabulary is learned from all texts of a list", "[data]") {
  const DataTest test;
  DataConfig config = of_list({{test.text("a.txt", repeat("the cat ", 50)).string(), 3},
                               {test.text("b.txt", repeat("a fox ", 50)).string(), 1}});
  config.tokenizer = "bpe:280";
  const TrainingData data = open_data(config, 8);
  std::set<std::string> learned;
  for (int64_t id = 256; id < data.tokenizer->vocab_size(); ++id) {
    learned.emplace(data.tokenizer->token_bytes(id));
  }
  CHECK(learned.contains(" cat"));
  CHECK(learned.contains(" fox"));
}

TEST_CASE("a list of one is that one", "[data]") {
  const DataTest test;
  const fs::path text = test.text("a.txt", repeat("abc", 100));
  DataConfig plain;
  plain.train = text.string();
  const TrainingData one = open_data(plain, 8);
  const TrainingData list = open_data(of_list({{text.string(), 5}}), 8);
  CHECK(one.train_fingerprint == list.train_fingerprint);
  CHECK(list.train_parts.empty());
}

TEST_CASE("the fingerprint of training data follows files, order and weights", "[data]") {
  const DataTest test;
  const std::string a = test.text("a.txt", repeat("ab", 100)).string();
  const std::string b = test.text("b.txt", repeat("ba", 100)).string();
  const auto of = [&](std::vector<WeightedFile> files) {
    return open_data(of_list(std::move(files)), 8).train_fingerprint;
  };
  const std::set<std::string> all{of({{a, 1}, {b, 1}}),
                                  of({{b, 1}, {a, 1}}),
                                  of({{a, 2}, {b, 1}}),
                                  of({{a, 1}}),
                                  of({{b, 1}}),
                                  of({{a, 1}, {a, 1}})};
  CHECK(all.size() == 6);
  CHECK(of({{a, 1}, {b, 1}}) == of({{a, 1}, {b, 1}}));
}

TEST_CASE("every file of a list must hold a window", "[data]") {
  const DataTest test;
  DataConfig config = of_list({{test.text("a.txt", repeat("ab", 50)).string(), 1},
                               {test.text("b.txt", "ababab").string(), 1}});
  config.validation_fraction = 0;
  const std::string message = data_error_of(config, 8);
  CHECK_THAT(message, ContainsSubstring("6 tokens, needs 9") && ContainsSubstring("b.txt"));
}

TEST_CASE("tales, texts and token files stand in one list", "[data]") {
  const DataTest test;
  prepare({.inputs = {test.text("a.txt", repeat("It was a day.\n", 200))},
           .tokenizer = "byte",
           .out = test / "prepared"});
  DataConfig config = of_list({{kTales, 1},
                               {(test / "prepared").string(), 1},
                               {test.text("b.txt", repeat("plain text\n", 50)).string(), 1}});
  config.tales_bytes = 5000;
  config.tokenizer = "byte";
  const TrainingData data = open_data(config, 16);
  CHECK(data.train_parts.size() == 3);
  CHECK_FALSE(data.validation_floor_nats);
  CHECK(text_of(data, *data.validation).find("plain text") != std::string::npos);
  // The tokens decide on the tokenizer when the config leaves it open.
  for (const std::string learned : {"char", "bpe:300"}) {
    config.tokenizer = learned;
    CHECK(open_data(config, 16).tokenizer->kind() == "byte");
  }
}

TEST_CASE("a vocabulary of an impossible size is refused before any text is read", "[data]") {
  const DataTest test;
  // A file that is not there is found out about later.
  DataConfig config = of_list({{(test / "nowhere.txt").string(), 1}});
  CHECK_THROWS_AS(open_data(config, 8), DataError);
  for (const std::string wrong : {"bpe:100", "bpe:1048577", "bpe:99999999999999999999"}) {
    config.tokenizer = wrong;
    CHECK_THROWS_AS(open_data(config, 8), ConfigError);
    CHECK_THROWS_WITH(open_data(config, 8),
                      ContainsSubstring(wrong) && ContainsSubstring("1048576"));
  }
}

TEST_CASE("a prepared folder, its pattern and its one file are the same training data", "[data]") {
  const DataTest test;
  const fs::path text = test.text("a.txt", repeat("0123456789abcdef\n", 1000));
  prepare({.inputs = {text}, .out = test / "one"});
  prepare({.inputs = {text}, .out = test / "many", .shard_tokens = 1000});
  const auto open_path = [&](const fs::path& path) {
    DataConfig config;
    config.train = path.string();
    return open_data(config, 16);
  };
  const TrainingData file = open_path(test / "one/train.tokens");
  for (const char* path : {"one", "many", "many/train_*.tokens"}) {
    const TrainingData data = open_path(test / path);
    CHECK(data.train_fingerprint == file.train_fingerprint);
    CHECK(data.validation_fingerprint == file.validation_fingerprint);
    CHECK(text_of(data, data.train) == text_of(file, file.train));
    CHECK(text_of(data, *data.validation) == text_of(file, *file.validation));
  }
  CHECK(open_text_or_tokens(test / "many", file.tokenizer).size() == file.validation->size());
  CHECK(open_text_or_tokens(text, file.tokenizer).size() == 17'000);

  DataConfig config;
  config.train = (test / "many/train_00003.tokens").string();
  CHECK_THAT(data_error_of(config, 16), ContainsSubstring("is shard 3 of a set of"));
  fs::remove(test / "many/train_00003.tokens");
  config.train = (test / "many").string();
  CHECK_THAT(data_error_of(config, 16), ContainsSubstring("read together"));
}

TEST_CASE("paths that name nothing usable are refused by name", "[data]") {
  const DataTest test;
  fs::create_directory(test / "empty");
  test.text("a.txt", "abc");
  test.text("b.txt", "abc");
  DataConfig config;
  const auto refused = [&](const std::string& path) {
    config.train = (test / path).string();
    return data_error_of(config, 2);
  };
  CHECK_THAT(refused("empty"), ContainsSubstring("holds no train.tokens"));
  CHECK_THAT(refused("no*.tokens"), ContainsSubstring("no file matches"));
  CHECK_THAT(refused("*.txt"), ContainsSubstring("tril prepare"));
}

TEST_CASE("a compressed text is trained on like the plain one", "[data]") {
  // What .gz and .zst hold is tested with prepare; here only that data.train takes them.
  const DataTest test;
  DataConfig config;
  config.train = (test / "absent.txt.gz").string();
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("no text file"));
  test.text("bad.txt.gz", "not compressed");
  config.train = (test / "bad.txt.gz").string();
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("cannot be read as a gzip file"));
}
