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

TEST_CASE("at 10^12 tokens the sampler needs no memory and stays inside", "[data]") {
  const int64_t n = 1'000'000'000'000;
  const WindowSampler sampler(Sampling::kShuffle, n, 1024, 3);
  CHECK(sampler.windows_per_epoch() == (n - 1024) / 1024);
  std::set<int64_t> starts;
  for (int64_t g = 0; g < 2000; ++g) {
    const int64_t start = sampler.start(g);
    CHECK((start >= 0 && start < n - 1024));
    starts.insert(start);
  }
  CHECK(starts.size() == 2000);
  // The draws reach all of the file, not only what 32 bits could name.
  CHECK(*starts.rbegin() > n / 10 * 9);
  CHECK(*starts.begin() < n / 10);
  // Far into training, in the second epoch.
  CHECK(sampler.start(sampler.windows_per_epoch() + 12'345) < n - 1024);
}

namespace {

/// Four parts of unequal size and weight: 600 + 50 + 3000 + 41 ids.
std::vector<SamplerPart> four_parts() {
  return {{.begin = 0, .count = 600, .weight = 1},
          {.begin = 600, .count = 50, .weight = 0.25},
          {.begin = 650, .count = 3000, .weight = 2},
          {.begin = 3650, .count = 41, .weight = 1e-9}};
}

}  // namespace

TEST_CASE("windows of several files come by weight, exactly in every period", "[data]") {
  const auto parts = four_parts();
  const WindowSampler sampler(Sampling::kShuffle, parts, 8, 11);
  CHECK(sampler.windows_per_epoch() == 592 / 8 + 42 / 8 + 2992 / 8 + 33 / 8);
  for (const int64_t period : {0, 5}) {
    std::vector<int64_t> counts(4);
    for (int64_t g = 0; g < WindowSampler::kPeriod; ++g) {
      ++counts[sampler.part_of(period * WindowSampler::kPeriod + g)];
    }
    // 65536 / 3.25 = 20164.9..., a quarter of it, twice it; the last has at least one.
    CHECK(counts == std::vector<int64_t>{20165, 5041, 40329, 1});
  }
}

TEST_CASE("a short stretch of several files already has about the right shares", "[data]") {
  const WindowSampler sampler(
      Sampling::kShuffle,
      {{.begin = 0, .count = 1000, .weight = 3}, {.begin = 1000, .count = 1000, .weight = 1}},
      8,
      1);
  for (const int64_t begin : {0, 1000, 70'000}) {
    int n_first = 0;
    for (int64_t g = begin; g < begin + 1000; ++g) n_first += sampler.part_of(g) == 0 ? 1 : 0;
    CHECK(n_first == Approx(750).margin(60));  // four standard deviations
  }
}

TEST_CASE("each of several files goes through its own epochs", "[data]") {
  const auto parts = four_parts();
  const int64_t t = 8;
  const WindowSampler sampler(Sampling::kShuffle, parts, t, 11);
  std::vector<std::vector<int64_t>> starts(parts.size());
  for (int64_t g = 0; g < 200'000; ++g) {
    const size_t part = sampler.part_of(g);
    const int64_t start = sampler.start(g);
    REQUIRE(start >= parts[part].begin);
    REQUIRE(start + t + 1 <= parts[part].begin + parts[part].count);  // never across a border
    starts[part].push_back(start);
  }
  // Within a period a part's windows come in a shuffled order, so whole periods are looked at: in
  // k windows of a part with W per epoch, each slot is taken floor(k/W) or ceil(k/W) times.
  const int64_t n_periods = 200'000 / WindowSampler::kPeriod;
  for (size_t part = 0; part < 3; ++part) {
    const int64_t windows = (parts[part].count - t) / t;
    std::vector<int64_t> taken(static_cast<size_t>(windows));
    int64_t n = 0;
    for (int64_t g = 0; g < n_periods * WindowSampler::kPeriod; ++g) {
      if (sampler.part_of(g) != part) continue;
      const int64_t slot = (sampler.start(g) - parts[part].begin) / t;
      if (slot < windows) ++taken[static_cast<size_t>(slot)];
      ++n;
    }
    const auto [least, most] = std::minmax_element(taken.begin(), taken.end());
    INFO("part " << part << ": " << *least << " to " << *most << " of " << n << " / " << windows);
    CHECK(*least >= n / windows - 1);
    CHECK(*most <= n / windows + 2);
  }
}

TEST_CASE("one file given as a list of one is drawn as ever", "[data]") {
  for (const Sampling sampling : {Sampling::kShuffle, Sampling::kRandom}) {
    const WindowSampler plain(sampling, 1000, 8, 5);
    const WindowSampler list(sampling, {{.begin = 0, .count = 1000, .weight = 0.1}}, 8, 5);
    for (int64_t g = 0; g < 500; ++g) CHECK(plain.start(g) == list.start(g));
  }
}

TEST_CASE("random windows of several files stay inside each", "[data]") {
  const auto parts = four_parts();
  const WindowSampler sampler(Sampling::kRandom, parts, 40, 2);
  for (int64_t g = 0; g < 70'000; ++g) {
    const SamplerPart& part = parts[sampler.part_of(g)];
    const int64_t start = sampler.start(g);
    REQUIRE(start >= part.begin);
    REQUIRE(start + 41 <= part.begin + part.count);
  }
}
