#include "tril/generate/generator.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

using Ids = std::vector<int64_t>;

/// Tokens of any bytes; one may end the text.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> tokens, int64_t end_of_text = -1)
      : tokens_(std::move(tokens)), end_of_text_(end_of_text) {}

  std::string kind() const override { return "list"; }
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  void encode_to(std::string_view, std::vector<int32_t>&) const override {}
  std::string_view token_bytes(int64_t id) const override {
    return tokens_.at(static_cast<size_t>(id));
  }
  int64_t start_token() const override { return 0; }
  int64_t end_of_text() const override { return end_of_text_; }
  OrderedJson to_json() const override { return {}; }
  size_t safe_prefix(std::string_view text, bool) const override { return text.size(); }

 private:
  std::vector<std::string> tokens_;
  int64_t end_of_text_;
};

/// A model whose most probable token after token i is next[i], whatever came before: the blocks do
/// nothing, embeddings are unit vectors, and the head maps vector i to logit next[i].
GPT follow_model(const Ids& next, int64_t context_length = 8) {
  const auto v = static_cast<int64_t>(next.size());
  ModelConfig config = tiny_config();
  config.vocab_size = v;
  config.n_embed = v;
  config.n_head = 1;
  config.context_length = context_length;
  config.tie_embeddings = false;
  GPT model(config);
  initialize(model, 1);
  const torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters()) {
    if (item.key().starts_with("blocks.")) item.value().zero_();
  }
  model->token_embedding->weight.copy_(torch::eye(v));
  model->lm_head->weight.zero_();
  for (int64_t i = 0; i < v; ++i) {
    model->lm_head->weight[next[static_cast<size_t>(i)]][i] = 10;
  }
  return model;
}

/// Tokens 0, 1, 2, ... after each other.
GPT counting_model(int64_t vocab_size, int64_t context_length = 8) {
  Ids next;
  for (int64_t i = 0; i < vocab_size; ++i) next.push_back((i + 1) % vocab_size);
  return follow_model(next, context_length);
}

ModelConfig config_with_context(int64_t context_length, Preset preset = Preset::kModern) {
  ModelConfig config = tiny_config(preset);
  config.context_length = context_length;
  return config;
}

Ids some_prompt(int64_t n) {
  Ids ids;
  for (int64_t i = 0; i < n; ++i) ids.push_back((i * i + i / 7 + 3) % 32);
  return ids;
}

/// The plain way: the whole window through the model for every token, then the highest logit.
Ids greedy_by_hand(GPT& model, Ids ids, int64_t n_new) {
  const torch::NoGradGuard no_grad;
  model->eval();
  Ids result;
  for (int64_t i = 0; i < n_new; ++i) {
    const int64_t n =
        std::min<int64_t>(static_cast<int64_t>(ids.size()), model->config().context_length);
    const auto window =
        torch::tensor(at::ArrayRef<int64_t>(ids).slice(ids.size() - static_cast<size_t>(n)));
    result.push_back(model->forward(window.unsqueeze(0))[0][n - 1].argmax().item<int64_t>());
    ids.push_back(result.back());
  }
  return result;
}

GenerateOptions greedy(int64_t n_new, bool use_cache = true) {
  GenerateOptions options;
  options.max_new_tokens = n_new;
  options.sampling.temperature = 0;
  options.use_cache = use_cache;
  return options;
}

GenerateOptions drawn(int64_t n_new, uint64_t seed, bool use_cache = true) {
  GenerateOptions options = greedy(n_new, use_cache);
  options.sampling.temperature = 1;
  options.seed = seed;
  return options;
}

/// What StopMatcher gives out for text in these pieces, with '|' where the stop was found.
std::string matched(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string out;
  for (const auto& piece : pieces) out += matcher.push(piece);
  out += matcher.finish();
  return out + (matcher.found() ? "|" : "");
}

}  // namespace

TEST_CASE("prompts around and far beyond the context continue as their last tokens do",
          "[generate]") {
  for (const Preset preset : {Preset::kClassic, Preset::kModern}) {
    GPT model = tiny_model(config_with_context(16, preset));
    const CharTokenizer tokenizer = tokenizer_of(32);
    for (const int64_t n_prompt : {1, 15, 16, 17, 1000}) {
      CAPTURE(static_cast<int>(preset), n_prompt);
      const Ids prompt = some_prompt(n_prompt);
      const Ids expected = greedy_by_hand(model, prompt, 5);
      for (const bool use_cache : {true, false}) {
        CHECK(generate(model, tokenizer, prompt, greedy(5, use_cache)).ids == expected);
      }
      if (n_prompt > 16) {
        const Ids last(prompt.end() - 16, prompt.end());
        CHECK(generate(model, tokenizer, last, greedy(5)).ids == expected);
      }
    }
  }
}

TEST_CASE("the cache changes no token over three times the context", "[generate]") {
  for (const Preset preset : {Preset::kClassic, Preset::kGpt2, Preset::kModern}) {
    CAPTURE(static_cast<int>(preset));
    GPT model = tiny_model(config_with_context(16, preset));
    const CharTokenizer tokenizer = tokenizer_of(32);
    const Ids prompt = some_prompt(5);
    CHECK(generate(model, tokenizer, prompt, greedy(48, true)).ids ==
          generate(model, tokenizer, prompt, greedy(48, false)).ids);
    const Generation with_cache = generate(model, tokenizer, prompt, drawn(48, 5, true));
    const Generation without = generate(model, tokenizer, prompt, drawn(48, 5, false));
    CHECK(with_cache.ids == without.ids);
    CHECK(with_cache.text == without.text);
    CHECK(with_cache.ids.size() == 48);
    CHECK(with_cache.reason == StopReason::kLength);
    CHECK(with_cache.text == tokenizer.decode(with_cache.ids));
  }
}

TEST_CASE("the same seed gives the same text; seed and sample number change it", "[generate]") {
  GPT model = tiny_model(tiny_config());
  const CharTokenizer tokenizer = tokenizer_of(32);
  const auto text = [&](uint64_t seed, int64_t sample_index) {
    GenerateOptions options = drawn(40, seed);
    options.sample_index = sample_index;
    return generate(model, tokenizer, {1}, options).text;
  };
  CHECK(text(1, 0) == text(1, 0));
  CHECK(text(1, 0) != text(2, 0));
  CHECK(text(1, 0) != text(1, 1));
  torch::manual_seed(99);  // the framework's generator is not used
  CHECK(text(1, 1) == text(1, 1));
  // Temperature 0 does not depend on the seed at all.
  GenerateOptions other_seed = greedy(20);
  other_seed.seed = 2;
  CHECK(generate(model, tokenizer, {1}, greedy(20)).ids ==
        generate(model, tokenizer, {1}, other_seed).ids);
}

TEST_CASE("a shorter sample is the beginning of a longer one", "[generate]") {
  GPT model = tiny_model(tiny_config());
  const CharTokenizer tokenizer = tokenizer_of(32);
  const Ids all = generate(model, tokenizer, {1}, drawn(30, 3)).ids;
  const Ids some = generate(model, tokenizer, {1}, drawn(11, 3)).ids;
  CHECK(some == Ids(all.begin(), all.begin() + 11));
  CHECK(generate(model, tokenizer, {1}, drawn(0, 3)).ids.empty());
}

TEST_CASE("padded ids and ids that the tokenizer lacks are never drawn", "[generate]") {
  // Fresh weights at temperature 5 are nearly uniform: without the cut half would be padding.
  ModelConfig config = tiny_config();
  config.vocab_size = 65;
  config.vocab_multiple = 128;
  config.context_length = 2048;  // the window never slides: that would be slow
  const int64_t n_tokenizer = GENERATE(65, 40);
  CAPTURE(n_tokenizer);
  GPT model(config);
  initialize(model, 1);
  const CharTokenizer tokenizer = tokenizer_of(n_tokenizer);
  GenerateOptions options = drawn(2000, 1);
  options.sampling.temperature = 5;
  const Ids ids = generate(model, tokenizer, {0}, options).ids;
  REQUIRE(ids.size() == 2000);
  CHECK(*std::max_element(ids.begin(), ids.end()) == n_tokenizer - 1);
  CHECK(*std::min_element(ids.begin(), ids.end()) == 0);
}

TEST_CASE("an output that is not finite is an error at every temperature", "[generate]") {
  GPT model = tiny_model(tiny_config());
  model->train();
  {
    const torch::NoGradGuard no_grad;
    model->final_norm->weight[3] = std::numeric_limits<float>::quiet_NaN();
  }
  const CharTokenizer tokenizer = tokenizer_of(32);
  for (const auto& options : {greedy(5), drawn(5, 1)}) {
    CHECK_THROWS_AS(generate(model, tokenizer, {1}, options), CheckpointError);
    CHECK(model->is_training());  // also after an error
  }
}

TEST_CASE("dropout is off while generating and training mode comes back", "[generate]") {
  ModelConfig config = tiny_config();
  GPT plain = tiny_model(config);
  config.dropout = 0.5;
  GPT model = tiny_model(config);
  model->train();
  const CharTokenizer tokenizer = tokenizer_of(32);
  CHECK(generate(model, tokenizer, {1}, drawn(30, 1)).ids ==
        generate(plain, tokenizer, {1}, drawn(30, 1)).ids);
  CHECK(model->is_training());
}

TEST_CASE("a stop text over several tokens ends the text before it", "[generate]") {
  // After "a": "b" "E" "N" "D" "c" ...
  GPT model = counting_model(8);
  const ListTokenizer tokenizer({"a", "b", "E", "N", "D", "c", "d", "\n"});
  GenerateOptions options = greedy(100);
  options.stop = {"END"};
  const Generation result = generate(model, tokenizer, {0}, options);
  CHECK(result.text == "b");
  CHECK(result.ids == Ids{1, 2, 3, 4});
  CHECK(result.reason == StopReason::kStop);
}

TEST_CASE("a stop text inside one token ends the text inside it", "[generate]") {
  GPT model = counting_model(4);
  const ListTokenizer tokenizer({"a", "bc", "xENDy", "d"});
  GenerateOptions options = greedy(100);
  options.stop = {"END"};
  const Generation result = generate(model, tokenizer, {0}, options);
  CHECK(result.text == "bcx");
  CHECK(result.reason == StopReason::kStop);
}

TEST_CASE("a stop text that begins and does not go on is given out", "[generate]") {
  GPT model = counting_model(6);
  const ListTokenizer tokenizer({"a", "E", "N", "x", "E", "N"});
  GenerateOptions options = greedy(5);  // E N x E N: the last two might have become END
  options.stop = {"END"};
  std::vector<std::string> pieces;
  const Generation result = generate(
      model, tokenizer, {0}, options, [&](std::string_view text) { pieces.emplace_back(text); });
  CHECK(result.text == "ENxEN");
  CHECK(result.reason == StopReason::kLength);
  CHECK(pieces == std::vector<std::string>{"ENx", "EN"});
}

TEST_CASE("the end of the text stops and is no text itself", "[generate]") {
  GPT model = counting_model(6);
  const ListTokenizer tokenizer({"a", "b", "c", "<end>", "d", "e"}, /*end_of_text=*/3);
  const Generation result = generate(model, tokenizer, {0}, greedy(100));
  CHECK(result.text == "bc");
  CHECK(result.ids == Ids{1, 2, 3});
  CHECK(result.reason == StopReason::kEndOfText);
  CHECK(std::string(stop_reason_name(result.reason)) == "end_of_text");
  CHECK(std::string(stop_reason_name(StopReason::kStop)) == "stop");
  CHECK(std::string(stop_reason_name(StopReason::kLength)) == "length");
}

TEST_CASE("bytes of one character are never given out apart", "[generate]") {
  // x, then the bytes of "é" (C3 A9), of "日" (E6 97 A5), a lone A0, and so on from x.
  Ids next(256, 'x');
  const std::string cycle = "x\xC3\xA9\xE6\x97\xA5\xA0";
  for (size_t i = 0; i < cycle.size(); ++i) {
    next[static_cast<unsigned char>(cycle[i])] =
        static_cast<unsigned char>(cycle[(i + 1) % cycle.size()]);
  }
  GPT model = follow_model(next);
  const auto tokenizer = make_byte_tokenizer();
  std::vector<std::string> pieces;
  const auto collect = [&](std::string_view text) { pieces.emplace_back(text); };
  // From x: one whole cycle, x again, and the first byte of an é that is cut off.
  Generation result = generate(model, *tokenizer, {'x'}, greedy(8), collect);
  CHECK(result.text == "é日\uFFFDx\uFFFD");
  CHECK(pieces == std::vector<std::string>{"é", "日", "\uFFFD", "x", "\uFFFD"});
  for (const auto& piece : pieces) CHECK_FALSE(find_invalid_utf8(piece));

  // A stop text whose bytes are several tokens; a beginning of it waits.
  pieces.clear();
  GenerateOptions options = greedy(100);
  options.stop = {"日", "x!"};
  result = generate(model, *tokenizer, {'x'}, options, collect);
  CHECK(result.text == "é");
  CHECK(result.ids == Ids{0xC3, 0xA9, 0xE6, 0x97, 0xA5});
  CHECK(result.reason == StopReason::kStop);
  CHECK(pieces == std::vector<std::string>{"é"});
}

TEST_CASE("generation stops when it is asked to", "[generate]") {
  GPT model = counting_model(8);
  const CharTokenizer tokenizer = tokenizer_of(8);
  int n_polls = 0;
  GenerateOptions options = greedy(100);
  options.should_stop = [&] { return ++n_polls == 4; };
  CHECK(generate(model, tokenizer, {0}, options).text == "123");
}

TEST_CASE("the repetition penalty sees prompt and new tokens", "[generate]") {
  // Counting, but with 10 logits for the next token and 0 for all others: a penalty that divides
  // by 1e6 makes every token that was there about as good as any other, the lowest id first.
  GPT model = counting_model(4);
  const CharTokenizer tokenizer = tokenizer_of(4);
  GenerateOptions options = greedy(4);
  options.sampling.repetition_penalty = 1e9;
  // 0 -> 1 -> 2 -> 3 -> then 0 has 2e-8 left, still more than 0.
  CHECK(generate(model, tokenizer, {0}, options).text == "1230");
}

TEST_CASE("a stop text is found however the text is cut into pieces", "[generate]") {
  const std::string text = "abcabdabcabcabe-abcabce+x";
  const std::vector<std::vector<std::string>> all_stops = {{"abcabe"},
                                                           {"abcabce"},
                                                           {"c", "abc"},
                                                           {"abc", "b"},
                                                           {"ab", "abd"},
                                                           {"+x"},
                                                           {"+xy"},
                                                           {"e-a", "-"}};
  const std::vector<std::string> expected = {"abcabdabc|",
                                             "abcabdabcabcabe-|",
                                             "|",
                                             "a|",
                                             "|",
                                             "abcabdabcabcabe-abcabce|",
                                             text,
                                             "abcabdabcabcabe|"};
  for (size_t s = 0; s < all_stops.size(); ++s) {
    CAPTURE(all_stops[s]);
    for (size_t width = 1; width <= text.size(); ++width) {
      CAPTURE(width);
      std::vector<std::string> pieces;
      for (size_t i = 0; i < text.size(); i += width) pieces.push_back(text.substr(i, width));
      CHECK(matched(all_stops[s], pieces) == expected[s]);
    }
  }
}

TEST_CASE("nothing comes after a stop text, and empty ones do not count", "[generate]") {
  CHECK(matched({"b"}, {"abc", "def"}) == "a|");
  CHECK(matched({"", "b"}, {"abc"}) == "a|");
  CHECK(matched({""}, {"abc"}) == "abc");
  CHECK(matched({}, {"abc"}) == "abc");
  StopMatcher matcher({"\n\n"});
  CHECK(matcher.push("a\n") == "a");  // what may become the stop text waits
  CHECK(matcher.push("b") == "\nb");
  CHECK(matcher.push("\n") == "");
  CHECK(matcher.push("\nc") == "");
  CHECK(matcher.found());
  CHECK(matcher.finish() == "");
}
