#include <array>
#include <set>
#include <vector>

#include "support/catch.h"
#include "tril/base/counter_random.h"

using namespace tril;

namespace {

bool is_bijection(uint64_t n, uint64_t key) {
  const KeyedPermutation permutation(n, key);
  std::vector<bool> seen(n, false);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t to = permutation(i);
    if (to >= n || seen[to]) return false;
    seen[to] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("mix64 is SplitMix64", "[base]") {
  // First outputs of the reference generator seeded with 0: mix64 of 0 and of its increment.
  CHECK(mix64(0) == 0xe220a8397b1dcdafULL);
  CHECK(mix64(0x9e3779b97f4a7c15ULL) == 0x6e789e6aa1b965f4ULL);
}

TEST_CASE("random bits depend on every part of their key", "[base]") {
  std::set<uint64_t> values;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const RandomStream stream : {RandomStream::kInit, RandomStream::kCorpus}) {
      for (uint64_t a = 0; a < 4; ++a) {
        for (uint64_t b = 0; b < 4; ++b) values.insert(random_bits(seed, stream, a, b));
      }
    }
  }
  CHECK(values.size() == 4 * 2 * 4 * 4);
  static_assert(random_bits(1, RandomStream::kInit, 2) ==
                random_bits(1, RandomStream::kInit, 2, 0));
}

TEST_CASE("scaling stays in range at both ends", "[base]") {
  CHECK(scale_to_range(0, 7) == 0);
  CHECK(scale_to_range(~uint64_t{0}, 7) == 6);
  CHECK(scale_to_range(~uint64_t{0}, 1) == 0);
  CHECK(scale_to_range(~uint64_t{0}, ~uint64_t{0}) == ~uint64_t{0} - 1);
  CHECK(scale_to_unit(0) == 0.0);
  CHECK(scale_to_unit(~uint64_t{0}) == 1.0 - 0x1.0p-53);
}

TEST_CASE("scaled counter-based numbers are uniform", "[base]") {
  constexpr size_t kBins = 10;
  constexpr uint64_t kDraws = 100'000;
  std::array<double, kBins> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) {
    counts[scale_to_range(random_bits(1, RandomStream::kGenerate, i), kBins)] += 1;
  }
  double chi_square = 0;
  for (const double count : counts) {
    const double expected = static_cast<double>(kDraws) / kBins;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  CHECK(chi_square < 27.9);  // 9 degrees of freedom: exceeded by chance once in 1000 seeds
}

TEST_CASE("a keyed permutation is a bijection of every size", "[base]") {
  for (uint64_t n = 1; n <= 300; ++n) {
    CAPTURE(n);
    CHECK(is_bijection(n, 7 * n));
  }
  for (const uint64_t n : {1023U, 1024U, 1025U, 4096U, 4097U, 65'535U, 100'003U}) {
    CAPTURE(n);
    CHECK(is_bijection(n, 1));
  }
}

TEST_CASE("a keyed permutation of a huge range stays inside and does not repeat", "[base]") {
  for (const uint64_t n : {(uint64_t{1} << 40) + 1, ~uint64_t{0}}) {
    const KeyedPermutation permutation(n, 3);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1'000; ++i) {
      const uint64_t to = permutation(n - 1 - i);
      CHECK(to < n);
      seen.insert(to);
    }
    CHECK(seen.size() == 1'000);
  }
}

TEST_CASE("another key is another shuffle", "[base]") {
  // Over keys, the image of 0 must be near uniform; 16 positions, 15 degrees of freedom.
  constexpr uint64_t kSize = 16;
  constexpr uint64_t kKeys = 16'000;
  std::array<double, kSize> counts{};
  for (uint64_t key = 0; key < kKeys; ++key) {
    counts[KeyedPermutation(kSize, mix64(key))(0)] += 1;
  }
  double chi_square = 0;
  for (const double count : counts) {
    chi_square += (count - 1000) * (count - 1000) / 1000;
  }
  CHECK(chi_square < 37.7);  // exceeded by chance once in 1000 choices of the keys
}
