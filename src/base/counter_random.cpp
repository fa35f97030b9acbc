#include "tril/base/counter_random.h"

#include <bit>
#include <utility>

namespace tril {

namespace {

constexpr uint64_t kRounds = 4;

unsigned half_bits_for(uint64_t n) {
  assert(n >= 1);
  const auto bits = static_cast<unsigned>(std::bit_width(n - 1));
  return bits < 2 ? 1 : (bits + 1) / 2;
}

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t n, uint64_t key)
    : n_(n), key_(key), half_bits_(half_bits_for(n)) {}

uint64_t KeyedPermutation::operator()(uint64_t i) const {
  assert(i < n_);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  // The network permutes [0, 2^(2 half_bits)). Following its cycle from a point inside [0, n) until
  // the next point inside is again a permutation, of [0, n) only.
  do {
    uint64_t left = i >> half_bits_;
    uint64_t right = i & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = mix64(mix64(key_ + round) ^ right) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    i = (left << half_bits_) | right;
  } while (i >= n_);
  return i;
}

}  // namespace tril
