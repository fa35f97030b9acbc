#include "tril/data/training_data.h"

#include <optional>
#include <string>

#include "support/catch.h"
#include "support/data_test.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/data/prepare.h"
#include "tril/data/tales.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A config whose text is at `train`, with `validation_fraction` of its end for validation.
DataConfig of_text(const fs::path& train, double validation_fraction = 0.1) {
  DataConfig config;
  config.train = train.string();
  config.validation_fraction = validation_fraction;
  return config;
}

DataConfig of_tales(int64_t bytes, double validation_fraction) {
  DataConfig config;
  config.tales_bytes = bytes;
  config.validation_fraction = validation_fraction;
  return config;
}

std::string decode(const TrainingData& data, const TokenFile& file) {
  return data.tokenizer->decode(all_ids(file));
}

void prepare_files(const fs::path& text, const std::string& tokenizer, const fs::path& out) {
  prepare({.inputs = {text}, .tokenizer = tokenizer, .validation_fraction = 0.25, .out = out}, {});
}

}  // namespace

TEST_CASE("a training split needs context + 1 tokens, and the message counts them", "[data]") {
  const DataTest test;
  const DataConfig eight = of_text(test.text("8.txt", "abcdefgh"), 0);
  const std::string message = data_error_of(eight, 8);
  CHECK_THAT(message, ContainsSubstring("training split has 8 tokens, needs 9"));
  CHECK_THAT(message, ContainsSubstring("model.context_length 8"));
  const DataConfig nine = of_text(test.text("9.txt", "abcdefghi"), 0);
  CHECK(open_data(nine, 8).train.size() == 9);
  CHECK_FALSE(open_data(nine, 8).validation);
  CHECK(open_data(nine, 8).validation_fingerprint.empty());
}

TEST_CASE("a validation split too short for one window is refused before training", "[data]") {
  const DataTest test;
  DataConfig config = of_text(test.text("100.txt", repeat("0123456789", 10)), 0.05);
  const std::string message = data_error_of(config, 16);
  CHECK_THAT(message, ContainsSubstring("validation split has 5 tokens, needs 17"));
  CHECK_THAT(message, ContainsSubstring("data.validation_fraction"));
  config.validation_fraction = 0;
  CHECK_FALSE(open_data(config, 16).validation);
  config.validation_fraction = 0.17;
  CHECK(open_data(config, 16).validation->size() == 17);
}

TEST_CASE("an impossible validation fraction is refused", "[data]") {
  const DataTest test;
  DataConfig config = of_text(test.text("100.txt", repeat("0123456789", 10)));
  for (const double fraction : {1.0, -0.1, 1.5}) {
    config.validation_fraction = fraction;
    CHECK_THROWS_AS(open_data(config, 4), ConfigError);
  }
}

TEST_CASE("a validation text of its own leaves the whole training text", "[data]") {
  const DataTest test;
  DataConfig config = of_text(test.text("train.txt", repeat("abc", 10)));
  config.validation = test.text("validation.txt", repeat("cd", 8)).string();
  const TrainingData data = open_data(config, 4);
  CHECK(decode(data, data.train) == repeat("abc", 10));
  CHECK(decode(data, data.validation.value()) == repeat("cd", 8));
  CHECK(data.tokenizer->vocab_size() == 4);  // of both texts
  CHECK_FALSE(data.validation_floor_nats);
}

TEST_CASE("fingerprints follow the tokens that each split holds", "[data]") {
  const DataTest test;
  const std::string end = repeat("vwxyz", 8);
  DataConfig config = of_text(test.text("a.txt", repeat("abcde", 40) + end), 40.0 / 240);
  const TrainingData first = open_data(config, 8);
  const TrainingData again = open_data(config, 8);
  CHECK(first.train_fingerprint == again.train_fingerprint);
  CHECK(first.validation_fingerprint == again.validation_fingerprint);
  CHECK(first.train_fingerprint != first.validation_fingerprint);
  // One other character in the middle of the training part.
  config.train =
      test.text("b.txt", repeat("abcde", 20) + "e" + repeat("abcde", 20).substr(1) + end).string();
  const TrainingData other = open_data(config, 8);
  CHECK(other.train_fingerprint != first.train_fingerprint);
  CHECK(other.validation_fingerprint == first.validation_fingerprint);
}

TEST_CASE("the floor of the bundled corpus is that of exactly the scored fables", "[data]") {
  const DataTest test;
  DataConfig config = of_tales(20'000, 0.2);
  config.tales_seed = 3;
  config.tokenizer = GENERATE(as<std::string>{}, "char", "bpe:600");
  const TrainingData data = open_data(config, 32);
  const std::string train = decode(data, data.train);
  const std::string validation = decode(data, data.validation.value());

  const TalesText tales = make_tales(config.tales_bytes, config.tales_seed);
  CHECK(first_difference(train + validation, tales.text) == -1);
  // The first validation token is the last byte of the fable before: an evaluation, which does not
  // score a split's first token, scores whole fables.
  CHECK(train.ends_with("\n"));
  CHECK_FALSE(train.ends_with("\n\n"));
  CHECK(data.tokenizer->token_bytes(all_ids(*data.validation)[0]) == "\n");
  const std::string scored = validation.substr(1);
  CHECK(scored.front() != '\n');
  CHECK(scored.ends_with("\n\n"));
  const double share = static_cast<double>(scored.size()) / static_cast<double>(tales.text.size());
  CHECK(share == Approx(0.2).margin(0.05));
  // Found from the scored text alone, by parsing it.
  CHECK(data.validation_floor_nats.value() ==
        Approx(tales_negative_log_probability(scored)).epsilon(1e-9));
}

TEST_CASE("a damaged half of the cached corpus is made anew", "[data]") {
  const DataTest test;
  const TalesFiles files = cached_tales(5000, 1);
  const std::string text = read_text(files.text);
  fs::remove(files.marks);
  CHECK(cached_tales(5000, 1).marks == files.marks);
  CHECK(read_tales_side_file(files.marks).back().end_byte == static_cast<int64_t>(text.size()));
}

TEST_CASE("the bundled corpus without a validation part has no floor", "[data]") {
  const DataTest test;
  DataConfig config = of_tales(5000, 0);
  CHECK_FALSE(open_data(config, 8).validation);
  CHECK_FALSE(open_data(config, 8).validation_floor_nats);
  config.validation = test.text("v.txt", "It was a day in the wood.").string();
  const TrainingData data = open_data(config, 8);
  CHECK(decode(data, data.validation.value()) == "It was a day in the wood.");
  CHECK_FALSE(data.validation_floor_nats);
}

TEST_CASE("the bundled corpus takes a token file for validation", "[data]") {
  const DataTest test;
  prepare_files(test.text("v.txt", repeat("It was. ", 20)), "byte", test / "out");
  DataConfig config = of_tales(5000, 0);
  config.validation = (test / "out/train.tokens").string();
  config.tokenizer = "byte";
  const TrainingData data = open_data(config, 8);
  CHECK(decode(data, data.validation.value()) == repeat("It was. ", 15));
}

TEST_CASE("too few fables for two parts are a readable error", "[data]") {
  const DataTest test;
  const DataConfig config = of_tales(1000, 0.99);
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("data.tales_bytes 1000"));
}

TEST_CASE("a token file brings its tokenizer and its validation part along", "[data]") {
  const DataTest test;
  prepare_files(test.text("a.txt", repeat("abcd", 20)), "char", test / "out");
  DataConfig config = of_text(test / "out/train.tokens");
  const TrainingData data = open_data(config, 8);
  CHECK(decode(data, data.train) == repeat("abcd", 15));
  CHECK(decode(data, data.validation.value()) == repeat("abcd", 5));
  CHECK(data.tokenizer->kind() == "char");
  config.validation_fraction = 0;
  CHECK_FALSE(open_data(config, 8).validation);
  config.validation = test.text("v.txt", "dcbadcbadcba").string();
  const TrainingData with_text = open_data(config, 8);
  CHECK(decode(with_text, with_text.validation.value()) == "dcbadcbadcba");
}

TEST_CASE("a token file without its tokenizer is a readable error", "[data]") {
  const DataTest test;
  prepare_files(test.text("a.txt", repeat("abcd", 20)), "char", test / "out");
  fs::remove(test / "out/tokenizer.json");
  const DataConfig config = of_text(test / "out/train.tokens");
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("tokenizer.json"));
}

TEST_CASE("a token file of another tokenizer is refused by fingerprint", "[data]") {
  const DataTest test;
  // Two vocabularies of equal size: only the fingerprint can tell.
  prepare_files(test.text("a.txt", repeat("abcd", 20)), "char", test / "a");
  prepare_files(test.text("b.txt", repeat("wxyz", 20)), "char", test / "b");
  DataConfig config = of_text(test / "a/train.tokens");
  config.tokenizer = (test / "b/tokenizer.json").string();
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("another tokenizer"));
  config.tokenizer = "char";
  config.validation = (test / "b/validation.tokens").string();
  CHECK_THAT(data_error_of(config, 8), ContainsSubstring("another tokenizer"));
  // As on resume: the model's tokenizer decides, not the one beside the file.
  config.validation.clear();
  const std::shared_ptr<const Tokenizer> of_model = load_tokenizer(test / "b/tokenizer.json");
  CHECK_THAT(data_error_of(config, 8, of_model), ContainsSubstring("another tokenizer"));
}

TEST_CASE("on resume the model's tokenizer is used, whatever the text would give", "[data]") {
  const DataTest test;
  const DataConfig config = of_text(test.text("a.txt", repeat("ab", 20)), 0.25);
  const auto of_model = std::make_shared<const CharTokenizer>(CharTokenizer::from_text("zyx abc"));
  const TrainingData data = open_data(config, 8, of_model);
  CHECK(data.tokenizer->fingerprint() == of_model->fingerprint());
  CHECK(decode(data, data.train) == repeat("ab", 15));
  const auto too_small = std::make_shared<const CharTokenizer>(CharTokenizer::from_text("a"));
  CHECK_THAT(data_error_of(config, 8, too_small), ContainsSubstring("'b' (U+0062)"));
}

TEST_CASE("a missing text is a readable error", "[data]") {
  const DataTest test;
  CHECK_THAT(data_error_of(of_text(test / "absent.txt"), 8), ContainsSubstring("absent.txt"));
  CHECK_THAT(data_error_of(of_text(test / "absent.tokens"), 8), ContainsSubstring("absent"));
}
