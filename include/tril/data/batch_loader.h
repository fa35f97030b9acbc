#pragma once
// Training batches by window number; on a GPU the next one is on its way while the step runs.

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tril/base/token_file.h"
#include "tril/data/batch.h"
#include "tril/data/window_sampler.h"

namespace tril {

/// Reads the windows that the sampler names. What a call returns depends on its argument only, so
/// reading ahead changes nothing but the time.
class BatchLoader {
 public:
  BatchLoader(TokenFile tokens,
              WindowSampler sampler,
              int64_t batch_size,
              int64_t context_length,
              torch::Device device);

  /// Windows first_window ... first_window + batch_size - 1, on the device. DataError: make_batch.
  Batch load(int64_t first_window);

  /// On a GPU: begins to read and move what the next load() will ask for. The ids go through pinned
  /// memory on a stream of their own, so neither side waits; call it when the step's kernels are in
  /// the queue. On the CPU: asks the system for the pages of the token file, and returns at once.
  void prefetch(int64_t first_window);

 private:
  /// A batch on its way: usable on another stream when `arrived` has been waited for there.
  struct Ahead {
    int64_t first_window = 0;
    Batch batch;
    c10::Event arrived;
  };

  std::vector<int64_t> starts_of(int64_t first_window) const;
  Batch read(int64_t first_window) const;

  TokenFile tokens_;
  WindowSampler sampler_;
  int64_t batch_size_;
  int64_t context_length_;
  torch::Device device_;
  std::optional<c10::Stream> copies_;  ///< where batches are moved; nothing on the CPU
  std::optional<Ahead> ahead_;
};

}  // namespace tril
