#pragma once
// Which window of the token file is training window number g: a pure function of (seed, g).
// Nothing is stored, so resume is exact by construction, at any number of processes.

#include <cstdint>
#include <vector>

#include "tril/base/counter_random.h"
#include "tril/config/data_config.h"

namespace tril {

/// A part of the stream that windows are drawn from: one file of several.
struct SamplerPart {
  int64_t begin = 0;  ///< its first id, in the stream
  int64_t count = 0;  ///< N: its ids
  double weight = 1;  ///< its share of the windows, relative to the other parts'
};

/// A window of T+1 ids starts at start(g) and lies inside one part of N ids.
///   shuffle  W = max(1, floor((N-T)/T)) windows per epoch, each once, in a keyed order; every
///            epoch begins at another offset, so window borders move.
///   random   starts drawn evenly from all N-T legal ones, with replacement.
/// With several parts, each run of kPeriod windows holds each part a fixed number of times, in
/// proportion to the weights (at least once), in a keyed order. So which part window g is of, and
/// how many windows of that part came before, are closed forms too, and each part goes through its
/// own epochs. O(parts) memory and O(log parts) time, whatever the size.
class WindowSampler {
 public:
  static constexpr int64_t kPeriod = 65536;

  /// n_tokens = N >= context_length + 1 (callers check and name the split; here it is an assert).
  WindowSampler(Sampling sampling, int64_t n_tokens, int64_t context_length, uint64_t seed);
  /// 1 to kPeriod parts, each with count >= context_length + 1 and weight > 0.
  WindowSampler(Sampling sampling,
                const std::vector<SamplerPart>& parts,
                int64_t context_length,
                uint64_t seed);

  /// First id of window g >= 0.
  int64_t start(int64_t g) const;
  /// The part that window g is of.
  size_t part_of(int64_t g) const;
  /// Of all parts together.
  int64_t windows_per_epoch() const { return windows_per_epoch_; }

 private:
  struct Part {
    int64_t begin = 0;
    int64_t count = 0;
    int64_t windows_per_epoch = 0;
    uint64_t seed = 0;
    int64_t per_period = kPeriod;  ///< its windows in each period
    int64_t first_slot = 0;        ///< its first slot of the period
  };
  struct Draw {
    size_t part = 0;
    int64_t window = 0;  ///< its number among the windows of the part
  };
  Draw draw(int64_t g) const;
  int64_t start_in(const Part& part, int64_t window) const;

  Sampling sampling_;
  int64_t context_length_;
  uint64_t seed_;
  std::vector<Part> parts_;
  int64_t windows_per_epoch_ = 0;
};

}  // namespace tril
