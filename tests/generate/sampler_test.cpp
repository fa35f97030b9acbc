#include "tril/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "support/catch.h"
#include "tril/base/counter_random.h"
#include "tril/base/error.h"

using namespace tril;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kBelowOne = 1.0 - 0x1.0p-53;  // the largest number a draw can be

int64_t sample(const std::vector<float>& logits,
               const SamplingOptions& options,
               double uniform,
               const std::vector<int64_t>& context = {}) {
  return sample_token(logits, context, options, uniform);
}

/// The ids that draws spread evenly over [0, 1) can give, in order of their first appearance.
std::vector<int64_t> reachable(const std::vector<float>& logits,
                               const SamplingOptions& options,
                               const std::vector<int64_t>& context = {}) {
  std::vector<int64_t> ids;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const int64_t id = sample(logits, options, i / static_cast<double>(kDraws), context);
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

/// Logits whose probabilities at temperature 1 are `p`.
std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  return logits;
}

using Ids = std::vector<int64_t>;

}  // namespace

TEST_CASE("temperature 0 takes the highest logit, whatever the draw", "[generate]") {
  for (const double uniform : {0.0, 0.3, 0.9, kBelowOne}) {
    CHECK(sample({0.1F, 2.0F, 1.9F, -5.0F}, {.temperature = 0}, uniform) == 1);
    CHECK(sample({3.0F, -1.0F}, {.temperature = 0}, uniform) == 0);
    CHECK(sample({-7.0F}, {.temperature = 0}, uniform) == 0);
  }
}

TEST_CASE("of equal logits the lower id wins", "[generate]") {
  const std::vector<float> logits{0.0F, 4.0F, 4.0F, 4.0F};
  CHECK(sample(logits, {.temperature = 0}, kBelowOne) == 1);
  CHECK(reachable(logits, {.temperature = 1, .top_k = 2}) == Ids{1, 2});
  // exp(0) * 3 = 3: half of it is reached by the second of three equal ones.
  CHECK(reachable({4.0F, 4.0F, 4.0F}, {.temperature = 1, .top_p = 0.5}) == Ids{0, 1});
}

TEST_CASE("a tiny temperature equals 0 and does not overflow", "[generate]") {
  for (const double temperature : {1e-8, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    CAPTURE(temperature);
    for (const double uniform : {0.0, 0.5, kBelowOne}) {
      CHECK(sample({0.1F, 2.0F, 1.999F}, {.temperature = temperature}, uniform) == 1);
      CHECK(sample({-3e38F, 3e38F, 0.0F}, {.temperature = temperature}, uniform) == 1);
      CHECK(sample({-3e38F, -2e38F}, {.temperature = temperature}, uniform) == 1);
    }
  }
}

TEST_CASE("the draw picks by the cumulated probabilities in order of the ids", "[generate]") {
  // 0.2 | 0.5 | 0.3: the borders are 0.2 and 0.7.
  const std::vector<float> logits = logits_of({0.2, 0.5, 0.3});
  const SamplingOptions options{.temperature = 1};
  CHECK(sample(logits, options, 0.0) == 0);
  CHECK(sample(logits, options, 0.199) == 0);
  CHECK(sample(logits, options, 0.201) == 1);
  CHECK(sample(logits, options, 0.699) == 1);
  CHECK(sample(logits, options, 0.701) == 2);
  CHECK(sample(logits, options, kBelowOne) == 2);
}

TEST_CASE("the temperature divides the logits", "[generate]") {
  // p ~ exp(l / t): logits ln 4 and 0 at temperature 2 give 2 : 1, at 0.5 they give 16 : 1.
  const std::vector<float> logits{std::log(4.0F), 0.0F};
  CHECK(sample(logits, {.temperature = 2}, 2.0 / 3 - 1e-6) == 0);
  CHECK(sample(logits, {.temperature = 2}, 2.0 / 3 + 1e-6) == 1);
  CHECK(sample(logits, {.temperature = 0.5}, 16.0 / 17 - 1e-6) == 0);
  CHECK(sample(logits, {.temperature = 0.5}, 16.0 / 17 + 1e-6) == 1);
  CHECK(reachable({1.0F, 500.0F, 0.0F}, {.temperature = 1e300}) == Ids{0, 1, 2});  // uniform
}

TEST_CASE("a token without probability is never drawn", "[generate]") {
  // exp(-2000) is 0 in double: the last id must not be the answer to a draw just below 1.
  // The rounded sum of these three leaves a crumb, so that the draw passes all of them.
  CHECK(sample({0.0F, 1.6F, 1.0F, -2000.0F}, {.temperature = 1}, kBelowOne) == 2);
  CHECK(sample({0.0F, 1.0F, -2000.0F}, {.temperature = 1}, kBelowOne) == 1);
  CHECK(sample({-2000.0F, 1.0F, 0.0F}, {.temperature = 1}, 0.0) == 1);
}

TEST_CASE("top-k keeps the k most probable", "[generate]") {
  const std::vector<float> logits{1.0F, 3.0F, 0.0F, 2.0F};
  CHECK(reachable(logits, {.temperature = 5, .top_k = 1}) == Ids{1});
  CHECK(reachable(logits, {.temperature = 5, .top_k = 2}) == Ids{1, 3});
  CHECK(reachable(logits, {.temperature = 5, .top_k = 3}) == Ids{0, 1, 3});
  const Ids all{0, 1, 2, 3};
  CHECK(reachable(logits, {.temperature = 5, .top_k = 4}) == all);
  CHECK(reachable(logits, {.temperature = 5, .top_k = 1000}) == all);
  CHECK(reachable(logits, {.temperature = 5, .top_k = 0}) == all);
}

TEST_CASE("top-p keeps the fewest that reach p together", "[generate]") {
  // Four equal logits: each exp(0) = 1 of 4, so the borders are exact.
  const std::vector<float> equal(4, 0.0F);
  CHECK(reachable(equal, {.temperature = 1, .top_p = 0.25}) == Ids{0});
  CHECK(reachable(equal, {.temperature = 1, .top_p = 0.5}) == Ids{0, 1});
  CHECK(reachable(equal, {.temperature = 1, .top_p = 0.5000001}) == Ids{0, 1, 2});
  CHECK(reachable(equal, {.temperature = 1, .top_p = 1}) == Ids{0, 1, 2, 3});
  // 0.2 | 0.5 | 0.3: 0.5 alone reaches 0.4, with 0.3 it reaches 0.79.
  const std::vector<float> logits = logits_of({0.2, 0.5, 0.3});
  CHECK(reachable(logits, {.temperature = 1, .top_p = 1e-9}) == Ids{1});
  CHECK(reachable(logits, {.temperature = 1, .top_p = 0.4}) == Ids{1});
  CHECK(reachable(logits, {.temperature = 1, .top_p = 0.79}) == Ids{1, 2});
  CHECK(reachable(logits, {.temperature = 1, .top_p = 0.81}) == Ids{0, 1, 2});
}

TEST_CASE("what is left after a cut shares the whole probability", "[generate]") {
  // Of 0.2 | 0.5 | 0.3 the last two remain: 0.5 / 0.8 = 0.625.
  const std::vector<float> logits = logits_of({0.2, 0.5, 0.3});
  for (const SamplingOptions& options : {SamplingOptions{.temperature = 1, .top_k = 2},
                                         SamplingOptions{.temperature = 1, .top_p = 0.7},
                                         SamplingOptions{.temperature = 1, .min_p = 0.5}}) {
    CHECK(sample(logits, options, 0.624) == 1);
    CHECK(sample(logits, options, 0.626) == 2);
  }
}

TEST_CASE("min-p keeps what reaches a share of the highest probability", "[generate]") {
  const std::vector<float> logits = logits_of({0.2, 0.5, 0.3});  // shares 0.4, 1, 0.6
  CHECK(reachable(logits, {.temperature = 1, .min_p = 0.39}) == Ids{0, 1, 2});
  CHECK(reachable(logits, {.temperature = 1, .min_p = 0.41}) == Ids{1, 2});
  CHECK(reachable(logits, {.temperature = 1, .min_p = 0.61}) == Ids{1});
  CHECK(reachable({7.0F, 1.0F, 7.0F}, {.temperature = 1, .min_p = 1}) == Ids{0, 2});
}

TEST_CASE("the repetition penalty lowers tokens of the context, once each", "[generate]") {
  // Positive logits are divided, negative ones multiplied: 3 -> 1.5 and -1 -> -2.
  const SamplingOptions options{.temperature = 0, .repetition_penalty = 2};
  CHECK(sample({3.0F, 1.6F}, options, 0.5) == 0);
  CHECK(sample({3.0F, 1.6F}, options, 0.5, {0}) == 1);
  CHECK(sample({3.0F, 1.4F}, options, 0.5, {0, 0, 0}) == 0);  // 1.5, not 0.375
  CHECK(sample({-1.0F, -1.9F}, options, 0.5, {0}) == 1);
  CHECK(sample({-1.0F, -2.1F}, options, 0.5, {0}) == 0);
  CHECK(sample({3.0F, 1.6F}, options, 0.5, {7, -1}) == 0);  // ids that have no logit
  const SamplingOptions below_one{.temperature = 0, .repetition_penalty = 0.5};
  CHECK(sample({3.0F, 1.6F}, below_one, 0.5, {1}) == 1);  // 1.6 -> 3.2
}

TEST_CASE("an extreme repetition penalty does not break the draw", "[generate]") {
  // Logits beyond any double become equal, not infinite: two of them share the probability.
  const SamplingOptions tiny{.temperature = 1, .repetition_penalty = 1e-300};
  CHECK(sample({1e38F, 1e38F, 2.0F}, tiny, 0.25, {0, 1, 2}) == 0);
  CHECK(sample({1e38F, 1e38F, 2.0F}, tiny, 0.75, {0, 1, 2}) == 1);
  const SamplingOptions huge{.temperature = 1, .repetition_penalty = 1e300};
  CHECK(sample({-1e38F, 2.0F, 2.0F}, huge, 0.1, {0, 1}) == 1);
  CHECK(sample({-1e38F, 2.0F, -1e38F}, huge, 0.0, {0, 1, 2}) == 1);
}

TEST_CASE("logits that are not finite are refused at every temperature", "[generate]") {
  for (const float bad : {kNan, kInf, -kInf}) {
    for (const double temperature : {0.0, 1.0}) {
      CAPTURE(bad, temperature);
      CHECK_THROWS_MATCHES(
          sample({0.0F, bad, 1.0F}, {.temperature = temperature}, 0.5),
          CheckpointError,
          Catch::Matchers::Predicate<CheckpointError>([](const CheckpointError& error) {
            const std::string text = error.what();
            return text.find("not finite") != std::string::npos &&
                   text.find("token 1") != std::string::npos;
          }));
    }
  }
}

TEST_CASE("draws have the distribution of the softmax", "[generate]") {
  // Chi-square over 20 000 counted draws: with 4 degrees of freedom 18.5 is passed once in 1000.
  const std::vector<float> logits{0.0F, 1.0F, -1.0F, 2.0F, 0.5F};
  constexpr double kTemperature = 0.8;
  constexpr int kDraws = 20000;
  std::vector<double> expected;
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l) / kTemperature);
  for (const float l : logits) {
    expected.push_back(kDraws * std::exp(static_cast<double>(l) / kTemperature) / total);
  }
  std::vector<double> counts(logits.size(), 0.0);
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double uniform = scale_to_unit(random_bits(1, RandomStream::kGenerate, 0, i));
    counts[static_cast<size_t>(sample(logits, {.temperature = kTemperature}, uniform))] += 1;
  }
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    chi_square += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  }
  CHECK(chi_square < 18.5);
}

TEST_CASE("filters that keep everything change no draw", "[generate]") {
  const std::vector<float> logits{0.3F, 1.0F, -1.0F, 2.0F, 0.5F, 0.29F};
  const SamplingOptions plain{.temperature = 1};
  const SamplingOptions wide{.temperature = 1, .top_k = 6, .top_p = 1 - 1e-15, .min_p = 1e-9};
  for (int i = 0; i < 500; ++i) {
    const double uniform = i / 500.0;
    CHECK(sample(logits, plain, uniform) == sample(logits, wide, uniform));
  }
}

TEST_CASE("options out of range are refused by name", "[generate]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto refused = [](const SamplingOptions& options, const std::string& name) {
    CHECK_THROWS_MATCHES(
        validate(options),
        ConfigError,
        Catch::Matchers::Predicate<ConfigError>(
            [&](const ConfigError& error) { return std::string(error.what()).starts_with(name); },
            name));
  };
  for (const double bad : {-1.0, -1e-9, nan, inf}) refused({.temperature = bad}, "--temperature");
  refused({.top_k = -1}, "--top-k");
  for (const double bad : {0.0, -0.5, 1.0001, nan, inf}) refused({.top_p = bad}, "--top-p");
  for (const double bad : {-0.1, 1.1, nan, inf}) refused({.min_p = bad}, "--min-p");
  for (const double bad : {0.0, -2.0, nan, inf}) {
    refused({.repetition_penalty = bad}, "--repetition-penalty");
  }
  CHECK_NOTHROW(validate({}));
  CHECK_NOTHROW(
      validate({.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 1, .repetition_penalty = 1.3}));
}

TEST_CASE("a logit bias comes before everything else", "[generate]") {
  const std::vector<float> logits = {1, 2, 3};
  SamplingOptions options;
  options.temperature = 0;
  options.logit_bias = {{0, 2.5}};
  CHECK(sample_token(logits, {}, options, 0) == 0);  // 3.5 beats 3
  options.repetition_penalty = 2;                    // halves the 3.5, not the 1
  CHECK(sample_token(logits, std::vector<int64_t>{0}, options, 0) == 2);
  options.logit_bias = {{2, -100}, {7, 100}};  // an id that is not there changes nothing
  CHECK(sample_token(logits, {}, options, 0) == 1);
  options.logit_bias = {{1, 1e308}, {1, 1e308}};  // no infinity
  CHECK(sample_token(logits, {}, options, 0) == 1);
  options.temperature = 1e-8;
  CHECK(sample_token(logits, {}, options, 0.99) == 1);
  options.logit_bias = {{1, std::numeric_limits<double>::quiet_NaN()}};
  CHECK_THROWS_AS(validate(options), ConfigError);
  options.logit_bias = {{-1, 0}};
  CHECK_THROWS_AS(validate(options), ConfigError);
}

TEST_CASE("log-probabilities are those of the softmax", "[generate]") {
  // exp: 1, 2, 4, 1: of 8.
  const std::vector<float> logits = {0, std::log(2.0F), std::log(4.0F), 0};
  const TokenLogProbabilities result = log_probabilities(logits, 1, 3);
  CHECK(result.chosen == Approx(std::log(2.0 / 8)));
  REQUIRE(result.top.size() == 3);
  CHECK(result.top[0].first == 2);
  CHECK(result.top[0].second == Approx(std::log(4.0 / 8)));
  CHECK(result.top[1].first == 1);
  CHECK(result.top[2].first == 0);  // a tie: the lower id
  CHECK(log_probabilities(logits, 0, 99).top.size() == 4);
  CHECK(log_probabilities(logits, 0, 0).top.empty());
  const std::vector<float> far = {1000, -1000};
  CHECK(log_probabilities(far, 0, 0).chosen == Approx(0.0));
  CHECK(log_probabilities(far, 1, 0).chosen == Approx(-2000.0));
}

TEST_CASE("one sampler draws row after row as if each were the first", "[generate]") {
  SamplingOptions options;
  options.top_k = 2;
  options.min_p = 0.05;
  options.top_p = 0.9;
  options.repetition_penalty = 1.3;
  Sampler sampler(options);
  const std::vector<float> a = {1, 2, 3, 2.5F};
  const std::vector<float> b = {5, -1};
  const std::vector<int64_t> context = {2};
  for (const double u : {0.0, 0.3, 0.6, 0.99}) {
    CHECK(sampler.draw(a, context, u) == sample_token(a, context, options, u));
    CHECK(sampler.draw(b, {}, u) == sample_token(b, {}, options, u));
  }
}
