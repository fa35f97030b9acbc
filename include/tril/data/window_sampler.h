#pragma once
// Which window of the token file is training window number g: a pure function of (seed, g).
// Nothing is stored, so resume is exact by construction, at any number of processes.

#include <cstdint>

#include "tril/base/counter_random.h"
#include "tril/config/data_config.h"

namespace tril {

/// A window of T+1 ids starts at start(g) and lies inside a split of N ids.
///   shuffle  W = max(1, floor((N-T)/T)) windows per epoch, each once, in a keyed order; every
///            epoch begins at another offset, so window borders move.
///   random   starts drawn evenly from all N-T legal ones, with replacement.
class WindowSampler {
 public:
  /// n_tokens = N >= context_length + 1 (callers check and name the split; here it is an assert).
  WindowSampler(Sampling sampling, int64_t n_tokens, int64_t context_length, uint64_t seed);

  /// First id of window g >= 0: in [0, N - T).
  int64_t start(int64_t g) const;
  int64_t windows_per_epoch() const { return windows_per_epoch_; }

 private:
  Sampling sampling_;
  int64_t n_tokens_;
  int64_t context_length_;
  uint64_t seed_;
  int64_t windows_per_epoch_;
};

}  // namespace tril
