#include "tril/data/window_sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include "support/catch.h"

using namespace tril;

namespace {

std::vector<int64_t> starts_of_epoch(const WindowSampler& sampler, int64_t epoch) {
  const int64_t n = sampler.windows_per_epoch();
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < n; ++i) starts.push_back(sampler.start(epoch * n + i));
  return starts;
}

}  // namespace

TEST_CASE("windows per epoch are floor((N - T) / T), at least one", "[data]") {
  const auto windows = [](int64_t n, int64_t t) {
    return WindowSampler(Sampling::kShuffle, n, t, 1).windows_per_epoch();
  };
  CHECK(windows(9, 8) == 1);   // N = T + 1: floor(1/8) = 0, raised to 1
  CHECK(windows(16, 8) == 1);  // floor(8/8)
  CHECK(windows(23, 8) == 1);  // floor(15/8)
  CHECK(windows(24, 8) == 2);  // floor(16/8)
  CHECK(windows(101, 10) == 9);
  CHECK(windows(5, 1) == 4);
}

TEST_CASE("an epoch takes each slot once, without overlap, from legal starts only", "[data]") {
  for (int64_t t = 1; t <= 9; ++t) {
    for (int64_t n = t + 1; n <= 60; ++n) {
      const WindowSampler sampler(Sampling::kShuffle, n, t, 5);
      for (int64_t epoch = 0; epoch < 8; ++epoch) {
        std::vector<int64_t> starts = starts_of_epoch(sampler, epoch);
        std::sort(starts.begin(), starts.end());
        CAPTURE(t, n, epoch);
        REQUIRE(starts.front() >= 0);
        REQUIRE(starts.front() < t);  // the offset
        REQUIRE(starts.back() <= n - t - 1);
        for (size_t i = 1; i < starts.size(); ++i) REQUIRE(starts[i] == starts[i - 1] + t);
      }
    }
  }
}

TEST_CASE("the smallest legal split always starts at 0", "[data]") {
  for (const Sampling sampling : {Sampling::kShuffle, Sampling::kRandom}) {
    const WindowSampler sampler(sampling, 9, 8, 3);
    for (int64_t g = 0; g < 100; ++g) CHECK(sampler.start(g) == 0);
  }
}

TEST_CASE("epochs differ in order and in offset", "[data]") {
  const WindowSampler sampler(Sampling::kShuffle, 10'000, 16, 7);
  std::set<int64_t> offsets;
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    std::vector<int64_t> slots = starts_of_epoch(sampler, epoch);
    offsets.insert(*std::min_element(slots.begin(), slots.end()));
    for (int64_t& start : slots) start /= 16;
    orders.insert(slots);
  }
  CHECK(orders.size() == 50);
  CHECK(offsets.size() > 10);  // of 16 possible ones
}

TEST_CASE("every offset that keeps the last window inside is used", "[data]") {
  // N = 100, T = 16: W = 5, offset in [0, min(15, 100 - 1 - 80)] = [0, 15].
  // N = 88: W = 4, offset in [0, min(15, 88 - 1 - 64)] = [0, 15]. N = 17: offset 0 only.
  // N = 20: W = 1, offset in [0, min(15, 20 - 1 - 16)] = [0, 3].
  const auto highest_offset = [](int64_t n) {
    const WindowSampler sampler(Sampling::kShuffle, n, 16, 7);
    int64_t highest = 0;
    for (int64_t epoch = 0; epoch < 300; ++epoch) {
      const auto starts = starts_of_epoch(sampler, epoch);
      highest = std::max(highest, *std::min_element(starts.begin(), starts.end()));
    }
    return highest;
  };
  CHECK(highest_offset(100) == 15);
  CHECK(highest_offset(88) == 15);
  CHECK(highest_offset(20) == 3);
  CHECK(highest_offset(17) == 0);
}

TEST_CASE("another seed gives other windows, the same seed the same", "[data]") {
  for (const Sampling sampling : {Sampling::kShuffle, Sampling::kRandom}) {
    std::set<int64_t> firsts;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const WindowSampler sampler(sampling, 1'000'000, 10, seed);
      firsts.insert(sampler.start(0));
      CHECK(sampler.start(123) == WindowSampler(sampling, 1'000'000, 10, seed).start(123));
    }
    CHECK(firsts.size() > 95);
  }
}

TEST_CASE("a resumed run goes on with new windows", "[data]") {
  const WindowSampler sampler(Sampling::kRandom, 1'000'000, 8, 7);
  for (int64_t g = 0; g < 10; ++g) CHECK(sampler.start(g) != sampler.start(g + 10));
}

TEST_CASE("window numbers and splits beyond 32 bits work", "[data]") {
  const int64_t far = (int64_t{1} << 40) + 17;
  for (const Sampling sampling : {Sampling::kShuffle, Sampling::kRandom}) {
    const WindowSampler small(sampling, 1'000, 10, 1);
    const WindowSampler large(sampling, int64_t{1} << 42, 1024, 1);
    int64_t highest = 0;
    for (int64_t i = 0; i < 100; ++i) {
      CHECK(small.start(far + i) >= 0);
      CHECK(small.start(far + i) < 990);
      const int64_t start = large.start(far + i);
      CHECK(start >= 0);
      CHECK(start < (int64_t{1} << 42) - 1024);
      highest = std::max(highest, start);
    }
    CHECK(highest > (int64_t{1} << 41));
  }
}

TEST_CASE("random sampling covers all legal starts evenly", "[data]") {
  // N = 20, T = 8: 12 legal starts, 0 to 11.
  const WindowSampler sampler(Sampling::kRandom, 20, 8, 1);
  std::vector<double> counts(12, 0.0);
  for (int64_t g = 0; g < 12'000; ++g) {
    const int64_t start = sampler.start(g);
    REQUIRE(start >= 0);
    REQUIRE(start < 12);
    counts[static_cast<size_t>(start)] += 1;
  }
  double chi_square = 0;
  for (const double count : counts) chi_square += (count - 1000) * (count - 1000) / 1000;
  CHECK(chi_square < 31.3);  // 11 degrees of freedom: exceeded by chance once in 1000 seeds
}
