#pragma once
// Counter-based random numbers: every value is a pure function of its key, so nothing has to be
// saved to go on, and any process can form any value. No state, no order of calls.

#include <cassert>
#include <cstdint>

namespace tril {

/// Separates the uses of one user-visible seed, so that no two draw the same numbers.
enum class RandomStream : uint64_t {
  kInit = 1,          ///< initial weights
  kDropout = 2,       ///< the framework's generator, once per micro-step
  kWindowSlot = 3,    ///< the shuffled order of training windows
  kWindowOffset = 4,  ///< where an epoch's windows begin
  kWindowStart = 5,   ///< `random` sampling
  kGenerate = 6,      ///< sampling of generated tokens
  kCorpus = 7,        ///< the bundled corpus
  kWindowFile = 16,   ///< which file of several a training window comes from
  kSplit = 17,        ///< which documents are for validation
};

/// Finaliser of SplitMix64 (Steele et al. 2014): a bijection of 64-bit words that mixes every bit.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// 64 random bits for (seed, stream, a, b).
constexpr uint64_t random_bits(uint64_t seed, RandomStream stream, uint64_t a, uint64_t b = 0) {
  uint64_t h = mix64(seed ^ mix64(static_cast<uint64_t>(stream)));
  h = mix64(h ^ a);
  return mix64(h ^ mix64(b));
}

/// Maps 64 random bits to [0, n), n >= 1, by the high half of the 128-bit product. Bias <= n /
/// 2^64.
constexpr uint64_t scale_to_range(uint64_t bits, uint64_t n) {
  assert(n >= 1);
  __extension__ using u128 = unsigned __int128;
  return static_cast<uint64_t>((static_cast<u128>(bits) * n) >> 64);
}

/// Maps 64 random bits to a double in [0, 1).
constexpr double scale_to_unit(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

/// A keyed bijection of [0, n), n >= 1: a shuffle whose i-th element costs O(1) time and no memory.
/// A four-round Feistel network over the next even power of two, walked until it falls inside
/// (Black and Rogaway 2002, "cycle walking"; fewer than 4 steps on average).
class KeyedPermutation {
 public:
  KeyedPermutation(uint64_t n, uint64_t key);
  /// i in [0, n) -> position in [0, n).
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t n_;
  uint64_t key_;
  unsigned half_bits_;
};

}  // namespace tril
