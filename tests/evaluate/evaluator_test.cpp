#include "tril/evaluate/evaluator.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "distributed/ranks.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A tokenizer of `n` characters, the ASCII ones from '0' on.
CharTokenizer ascii_tokenizer(int64_t n) {
  std::vector<char32_t> characters;
  for (int64_t i = 0; i < n; ++i) characters.push_back(static_cast<char32_t>('0' + i));
  return CharTokenizer(std::move(characters));
}

/// Token files, by default of a vocabulary of 32 characters as the tiny model has it.
class TokensTest {
 public:
  TokenFile write(const std::vector<int32_t>& ids) const { return write(ids, tokenizer); }
  TokenFile write(const std::vector<int32_t>& ids, const Tokenizer& by) const {
    TokenFileWriter writer(dir / "t.tokens", by.vocab_size(), by.fingerprint());
    writer.append(ids);
    writer.finish();
    return TokenFile::open(dir / "t.tokens");
  }
  /// The tiny model with windows of four tokens.
  static GPT four_token_model() {
    ModelConfig config = tiny_config();
    config.context_length = 4;
    return tiny_model(config);
  }
  TempDir dir;
  CharTokenizer tokenizer = ascii_tokenizer(32);
};

std::vector<int32_t> some_ids(int64_t n, int64_t vocab_size) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i + 3 * i) % vocab_size));
  return ids;
}

/// Sum of -log softmax(logits)[target] over one window, from the model's plain logits.
double window_nats(GPT& model, const std::vector<int32_t>& ids, int64_t begin, int64_t length) {
  const torch::NoGradGuard no_grad;
  const auto all = torch::tensor(ids).to(torch::kInt64);
  const auto inputs = all.narrow(0, begin, length).unsqueeze(0);
  const auto targets = all.narrow(0, begin + 1, length).unsqueeze(1);
  const auto log_p = torch::log_softmax(model->forward(inputs)[0].to(torch::kFloat64), -1);
  return -log_p.gather(1, targets).sum().item<double>();
}

double evaluated_nats(GPT& model,
                      const TokenFile& tokens,
                      const Tokenizer& tokenizer,
                      const EvaluateOptions& options = {}) {
  return evaluate(model, tokens, tokenizer, options).value().nats;
}

}  // namespace

TEST_CASE_METHOD(TokensTest, "ten tokens give nine predictions at every batch size", "[evaluate]") {
  GPT model = four_token_model();
  model->eval();
  const auto ids = some_ids(10, 32);
  const TokenFile tokens = write(ids);
  // Windows of stride 4: predictions of tokens 1-4, 5-8, and 9 alone.
  const double by_hand =
      window_nats(model, ids, 0, 4) + window_nats(model, ids, 4, 4) + window_nats(model, ids, 8, 1);
  for (const int64_t batch_size : {1, 2, 8, 0}) {
    CAPTURE(batch_size);
    const auto result = evaluate(model, tokens, tokenizer, {.batch_size = batch_size}).value();
    CHECK(result.tokens == 9);
    CHECK(result.whole);
    CHECK(result.nats == Approx(by_hand).epsilon(1e-6));
    CHECK(result.loss() == Approx(by_hand / 9).epsilon(1e-6));
    CHECK(result.perplexity() == Approx(std::exp(by_hand / 9)).epsilon(1e-6));
    CHECK(result.bytes == 9);
    CHECK(result.bits_per_byte() == Approx(by_hand / 9 / std::log(2.0)).epsilon(1e-6));
  }
}

TEST_CASE_METHOD(TokensTest,
                 "every count of tokens has each but the first scored once",
                 "[evaluate]") {
  GPT model = four_token_model();
  for (int64_t n = 2; n <= 14; ++n) {
    CAPTURE(n);
    const auto ids = some_ids(n, 32);
    const TokenFile tokens = write(ids);
    double by_hand = 0;
    for (int64_t begin = 0; begin < n - 1; begin += 4) {
      by_hand += window_nats(model, ids, begin, std::min<int64_t>(4, n - 1 - begin));
    }
    const auto result = evaluate(model, tokens, tokenizer, {.batch_size = 2}).value();
    CHECK(result.tokens == n - 1);
    CHECK(result.whole);
    CHECK(result.nats == Approx(by_hand).epsilon(1e-6));
  }
}

TEST_CASE_METHOD(TokensTest,
                 "a model of zeros has the perplexity of its vocabulary, padded or not",
                 "[evaluate]") {
  const CharTokenizer other = ascii_tokenizer(65);
  const TokenFile tokens = write(some_ids(1000, 65), other);
  for (const int64_t multiple : {1, 128}) {
    CAPTURE(multiple);
    ModelConfig config = tiny_config();
    config.vocab_size = 65;
    config.vocab_multiple = multiple;
    config.context_length = 64;
    GPT model(config);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : model->parameters()) parameter.zero_();
    }
    const auto result = evaluate(model, tokens, other, {}).value();
    CHECK(result.tokens == 999);
    CHECK(result.perplexity() == Approx(65.0).epsilon(1e-6));
    CHECK(evaluated_nats(model, tokens, other) == result.nats);  // twice the same
  }
}

TEST_CASE_METHOD(TokensTest,
                 "a share of the windows is evenly spaced and always the same",
                 "[evaluate]") {
  GPT model = four_token_model();
  const auto ids = some_ids(42, 32);  // 41 predictions: ten windows of 4 and one of 1
  const TokenFile tokens = write(ids);

  const auto some = evaluate(model, tokens, tokenizer, {.max_tokens = 12}).value();
  CHECK(some.tokens == 12);
  CHECK_FALSE(some.whole);
  // Three of eleven windows: numbers 0, 3 (11/3) and 7 (22/3).
  const double by_hand = window_nats(model, ids, 0, 4) + window_nats(model, ids, 12, 4) +
                         window_nats(model, ids, 28, 4);
  CHECK(some.nats == Approx(by_hand).epsilon(1e-6));
  for (int i = 0; i < 3; ++i) {
    CHECK(evaluated_nats(model, tokens, tokenizer, {.max_tokens = 12}) == some.nats);
  }
  // Less than a window is one window.
  const auto least = evaluate(model, tokens, tokenizer, {.max_tokens = 1}).value();
  CHECK(least.tokens == 4);
  CHECK(least.nats == Approx(window_nats(model, ids, 0, 4)).epsilon(1e-6));
}

TEST_CASE_METHOD(TokensTest,
                 "asking for as many tokens as there are, or more, scores all once",
                 "[evaluate]") {
  GPT model = four_token_model();
  const TokenFile tokens = write(some_ids(10, 32));
  const double all = evaluated_nats(model, tokens, tokenizer);
  for (const int64_t max_tokens : {9, 10, 11, 12, 13, 10'000}) {
    CAPTURE(max_tokens);
    const auto result = evaluate(model, tokens, tokenizer, {.max_tokens = max_tokens}).value();
    CHECK(result.whole);
    CHECK(result.tokens == 9);
    CHECK(result.nats == all);
  }
  CHECK(evaluate(model, tokens, tokenizer, {.max_tokens = 8}).value().tokens == 8);
}

TEST_CASE_METHOD(TokensTest,
                 "bits per byte count the bytes of the scored characters",
                 "[evaluate]") {
  const CharTokenizer other = CharTokenizer::from_text("aé日🤗");  // 1, 2, 3 and 4 bytes
  ModelConfig config = tiny_config();
  config.vocab_size = 4;
  GPT model = tiny_model(config);
  // Scored: é 日 🤗 a 日, 2 + 3 + 4 + 1 + 3 bytes; the first 日 is not.
  const TokenFile tokens = write(other.encode("日é日🤗a日"), other);
  const auto result = evaluate(model, tokens, other, {}).value();
  CHECK(result.tokens == 5);
  CHECK(result.bytes == 13);
  CHECK(result.bits_per_byte() == Approx(result.nats / (13 * std::log(2.0))));
}

TEST_CASE_METHOD(TokensTest,
                 "dropout is off in an evaluation and training mode comes back",
                 "[evaluate]") {
  ModelConfig config = tiny_config();
  GPT plain = tiny_model(config);
  config.dropout = 0.5;
  GPT model = tiny_model(config);
  const TokenFile tokens = write(some_ids(50, 32));
  for (const bool training : {true, false}) {
    model->train(training);
    CHECK(evaluated_nats(model, tokens, tokenizer) == evaluated_nats(plain, tokens, tokenizer));
    CHECK(model->is_training() == training);
  }
  // Also when an error ends it.
  model->train();
  const EvaluateOptions failing{.should_stop = []() -> bool { throw std::runtime_error("no"); }};
  CHECK_THROWS_AS(evaluate(model, tokens, tokenizer, failing), std::runtime_error);
  CHECK(model->is_training());
}

TEST_CASE_METHOD(TokensTest,
                 "an evaluation leaves the random generator and the gradients alone",
                 "[evaluate]") {
  ModelConfig config = tiny_config();
  config.dropout = 0.5;
  GPT model = tiny_model(config);
  const TokenFile tokens = write(some_ids(50, 32));
  torch::manual_seed(3);
  const auto expected = torch::rand({4});
  torch::manual_seed(3);
  evaluated_nats(model, tokens, tokenizer);
  CHECK(torch::equal(torch::rand({4}), expected));
  CHECK_FALSE(model->token_embedding->weight.grad().defined());
}

TEST_CASE_METHOD(TokensTest, "an evaluation can be stopped between batches", "[evaluate]") {
  GPT model = tiny_model(tiny_config());
  model->train();
  const TokenFile tokens = write(some_ids(81, 32));  // ten windows of 8
  int n_polls = 0;
  std::vector<int64_t> done;
  const auto result = evaluate(model,
                               tokens,
                               tokenizer,
                               {.batch_size = 1,
                                .should_stop = [&] { return ++n_polls == 4; },
                                .on_progress = [&](int64_t n, int64_t) { done.push_back(n); }});
  CHECK_FALSE(result);
  CHECK(done == std::vector<int64_t>{8, 16, 24});
  CHECK(model->is_training());
}

TEST_CASE_METHOD(TokensTest, "bf16 gives nearly the loss of fp32", "[evaluate]") {
  GPT model = tiny_model(tiny_config());
  const TokenFile tokens = write(some_ids(200, 32));
  const double fp32 = evaluated_nats(model, tokens, tokenizer);
  const double bf16 = evaluated_nats(model, tokens, tokenizer, {.precision = torch::kBFloat16});
  CHECK(bf16 != fp32);  // it was really used
  CHECK(bf16 == Approx(fp32).epsilon(0.02));
}

TEST_CASE_METHOD(TokensTest, "texts that cannot be scored are refused", "[evaluate]") {
  GPT model = tiny_model(tiny_config());
  for (const int64_t n : {0, 1}) {
    const TokenFile tokens = write(some_ids(n, 32));
    CHECK_THAT(message_of<DataError>([&] { evaluate(model, tokens, tokenizer, {}); }),
               ContainsSubstring("needs at least 2"));
  }
  const CharTokenizer larger = ascii_tokenizer(33);
  const TokenFile foreign = write(some_ids(20, 33), larger);
  CHECK_THAT(message_of<DataError>([&] { evaluate(model, foreign, larger, {}); }),
             ContainsSubstring("33 ids, the model's vocab_size is 32"));
  CHECK_THAT(message_of<DataError>([&] { evaluate(model, foreign, tokenizer, {}); }),
             ContainsSubstring("vocabulary of 33 ids"));
}

TEST_CASE_METHOD(TokensTest, "a damaged id in a token file is named, not used", "[evaluate]") {
  ModelConfig config = tiny_config();
  config.vocab_size = 64;  // larger than the tokenizer: the model itself would not notice
  GPT model = tiny_model(config);
  write(some_ids(20, 32));
  {
    std::fstream file(dir / "t.tokens", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(kTokenFileHeaderBytes) + 2 * 11);
    file.put(40);  // token 11 of 2 bytes
  }
  const TokenFile tokens = TokenFile::open(dir / "t.tokens");
  const auto message = message_of<DataError>([&] { evaluate(model, tokens, tokenizer, {}); });
  CHECK_THAT(
      message,
      ContainsSubstring("token 11 of ") && ContainsSubstring(" is 40, its vocabulary has 32 ids"));
  CHECK_THAT(message, ContainsSubstring("t.tokens"));
}

TEST_CASE_METHOD(TokensTest,
                 "several processes score a text as one does, bit for bit",
                 "[evaluate][distributed]") {
  const TokenFile tokens = write(some_ids(1003, 32));
  const ModelConfig config = tiny_config();
  GPT alone = tiny_model(config);
  const EvaluateOptions plain{.batch_size = 5};
  const Evaluation expected = evaluate(alone, tokens, tokenizer, plain).value();
  for (const int64_t n : {2, 3}) {
    for_each_rank(n, [&](ProcessGroup& group) {
      GPT model = tiny_model(config);
      EvaluateOptions options = plain;
      options.group = &group;
      const Evaluation found = evaluate(model, tokens, tokenizer, options).value();
      TRIL_MUST(found.nats == expected.nats);
      TRIL_MUST(found.tokens == expected.tokens);
      TRIL_MUST(found.bytes == expected.bytes);
      TRIL_MUST(found.standard_error == expected.standard_error);
      // One is told to stop: all stop.
      options.should_stop = [&] { return group.rank() == 1; };
      TRIL_MUST(!evaluate(model, tokens, tokenizer, options));
    });
  }
}
