#include "tril/data/batch_loader.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>
#include <vector>

namespace tril {

BatchLoader::BatchLoader(TokenFile tokens,
                         WindowSampler sampler,
                         int64_t batch_size,
                         int64_t context_length,
                         torch::Device device)
    : tokens_(std::move(tokens)),
      sampler_(std::move(sampler)),
      batch_size_(batch_size),
      context_length_(context_length),
      device_(device) {
  if (!device.is_cpu()) {
    copies_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

std::vector<int64_t> BatchLoader::starts_of(int64_t first_window) const {
  std::vector<int64_t> starts(static_cast<size_t>(batch_size_));
  for (size_t row = 0; row < starts.size(); ++row) {
    starts[row] = sampler_.start(first_window + static_cast<int64_t>(row));
  }
  return starts;
}

Batch BatchLoader::read(int64_t first_window) const {
  return make_batch(tokens_, starts_of(first_window), context_length_, device_);
}

void BatchLoader::prefetch(int64_t first_window) {
  if (!copies_) {
    for (const int64_t start : starts_of(first_window)) {
      tokens_.prefetch(start, context_length_ + 1);
    }
    return;
  }
  const c10::StreamGuard on_copies(*copies_);
  ahead_.emplace(Ahead{first_window, read(first_window), c10::Event(device_.type())});
  ahead_->arrived.record(*copies_);
}

Batch BatchLoader::load(int64_t first_window) {
  if (!ahead_ || ahead_->first_window != first_window) return read(first_window);
  const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  ahead_->arrived.block(current);
  Batch batch = std::move(ahead_->batch);
  ahead_.reset();
  // Its memory belongs to the copying stream; it may be given away again only when this one has
  // used it. Inputs and targets share it.
  batch.inputs.record_stream(current);
  return batch;
}

}  // namespace tril
