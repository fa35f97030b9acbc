#include "tril/data/window_sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace tril {
namespace {

/// How many of `total` slots each weight gets: in proportion, rounded by largest remainder (the
/// earlier part wins a tie), at least one.
std::vector<int64_t> apportion(const std::vector<SamplerPart>& parts, int64_t total) {
  // Divided by the largest first, so that no sum of weights can overflow.
  double largest = 0;
  for (const SamplerPart& part : parts) largest = std::max(largest, part.weight);
  double sum = 0;
  for (const SamplerPart& part : parts) sum += part.weight / largest;
  std::vector<int64_t> slots;
  std::vector<double> remainders;
  for (const SamplerPart& part : parts) {
    const double ideal = part.weight / largest / sum * static_cast<double>(total);
    slots.push_back(std::max<int64_t>(1, static_cast<int64_t>(std::floor(ideal))));
    remainders.push_back(ideal - static_cast<double>(slots.back()));
  }
  int64_t left = total - std::accumulate(slots.begin(), slots.end(), int64_t{0});
  for (; left > 0; --left) {
    const auto at = std::max_element(remainders.begin(), remainders.end()) - remainders.begin();
    ++slots[static_cast<size_t>(at)];
    remainders[static_cast<size_t>(at)] -= 1;
  }
  for (; left < 0; ++left) --*std::max_element(slots.begin(), slots.end());
  return slots;
}

int64_t below(uint64_t bits, int64_t n) {
  return static_cast<int64_t>(scale_to_range(bits, static_cast<uint64_t>(n)));
}

}  // namespace

WindowSampler::WindowSampler(Sampling sampling,
                             int64_t n_tokens,
                             int64_t context_length,
                             uint64_t seed)
    : WindowSampler(sampling,
                    std::vector<SamplerPart>{{.begin = 0, .count = n_tokens}},
                    context_length,
                    seed) {}

WindowSampler::WindowSampler(Sampling sampling,
                             const std::vector<SamplerPart>& parts,
                             int64_t context_length,
                             uint64_t seed)
    : sampling_(sampling), context_length_(context_length), seed_(seed) {
  assert(context_length >= 1);
  assert(!parts.empty() && static_cast<int64_t>(parts.size()) <= kPeriod);
  const std::vector<int64_t> slots = apportion(parts, kPeriod);
  int64_t first_slot = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    assert(parts[i].count >= context_length + 1 && parts[i].weight > 0);
    const int64_t windows =
        std::max<int64_t>(1, (parts[i].count - context_length) / context_length);
    parts_.push_back(
        {.begin = parts[i].begin,
         .count = parts[i].count,
         .windows_per_epoch = windows,
         .seed = parts.size() == 1 ? seed : random_bits(seed, RandomStream::kWindowFile, i, 1),
         .per_period = slots[i],
         .first_slot = first_slot});
    first_slot += slots[i];
    windows_per_epoch_ += windows;
  }
}

WindowSampler::Draw WindowSampler::draw(int64_t g) const {
  assert(g >= 0);
  if (parts_.size() == 1) return {.part = 0, .window = g};
  const int64_t period = g / kPeriod;
  const KeyedPermutation shuffle(
      kPeriod, random_bits(seed_, RandomStream::kWindowFile, static_cast<uint64_t>(period)));
  const auto slot = static_cast<int64_t>(shuffle(static_cast<uint64_t>(g % kPeriod)));
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), slot, [](int64_t at, const Part& p) {
        return at < p.first_slot;
      });
  const Part& part = *(after - 1);
  return {.part = static_cast<size_t>(after - 1 - parts_.begin()),
          .window = period * part.per_period + slot - part.first_slot};
}

size_t WindowSampler::part_of(int64_t g) const {
  return draw(g).part;
}

int64_t WindowSampler::start(int64_t g) const {
  const Draw drawn = draw(g);
  const Part& part = parts_[drawn.part];
  return part.begin + start_in(part, drawn.window);
}

int64_t WindowSampler::start_in(const Part& part, int64_t window) const {
  if (sampling_ == Sampling::kRandom) {
    return below(random_bits(part.seed, RandomStream::kWindowStart, static_cast<uint64_t>(window)),
                 part.count - context_length_);
  }
  const auto n_slots = static_cast<uint64_t>(part.windows_per_epoch);
  const uint64_t epoch = static_cast<uint64_t>(window) / n_slots;
  const KeyedPermutation shuffle(n_slots, random_bits(part.seed, RandomStream::kWindowSlot, epoch));
  const auto slot = static_cast<int64_t>(shuffle(static_cast<uint64_t>(window) % n_slots));
  // The last window of the epoch must end inside: offset + W T + 1 <= N.
  const int64_t max_offset =
      std::min(context_length_ - 1, part.count - 1 - part.windows_per_epoch * context_length_);
  const int64_t offset =
      below(random_bits(part.seed, RandomStream::kWindowOffset, epoch), max_offset + 1);
  return offset + context_length_ * slot;
}

}  // namespace tril
