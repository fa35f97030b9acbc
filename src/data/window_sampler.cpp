#include "tril/data/window_sampler.h"

#include <algorithm>
#include <cassert>

namespace tril {

WindowSampler::WindowSampler(Sampling sampling,
                             int64_t n_tokens,
                             int64_t context_length,
                             uint64_t seed)
    : sampling_(sampling),
      n_tokens_(n_tokens),
      context_length_(context_length),
      seed_(seed),
      windows_per_epoch_(std::max<int64_t>(
          1, (n_tokens - context_length) / std::max<int64_t>(1, context_length))) {
  assert(context_length >= 1 && n_tokens >= context_length + 1);
}

int64_t WindowSampler::start(int64_t g) const {
  assert(g >= 0);
  const auto below = [](uint64_t bits, int64_t n) {
    return static_cast<int64_t>(scale_to_range(bits, static_cast<uint64_t>(n)));
  };
  const auto window = static_cast<uint64_t>(g);
  if (sampling_ == Sampling::kRandom) {
    return below(random_bits(seed_, RandomStream::kWindowStart, window),
                 n_tokens_ - context_length_);
  }
  const auto n_slots = static_cast<uint64_t>(windows_per_epoch_);
  const uint64_t epoch = window / n_slots;
  const KeyedPermutation shuffle(n_slots, random_bits(seed_, RandomStream::kWindowSlot, epoch));
  const auto slot = static_cast<int64_t>(shuffle(window % n_slots));
  // The last window of the epoch must end inside: offset + W T + 1 <= N.
  const int64_t max_offset =
      std::min(context_length_ - 1, n_tokens_ - 1 - windows_per_epoch_ * context_length_);
  const int64_t offset =
      below(random_bits(seed_, RandomStream::kWindowOffset, epoch), max_offset + 1);
  return offset + context_length_ * slot;
}

}  // namespace tril
