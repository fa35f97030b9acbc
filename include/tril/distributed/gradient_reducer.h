#pragma once
// Adds up the gradients of all processes while the backward pass goes on.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "tril/distributed/buckets.h"
#include "tril/distributed/process_group.h"

namespace tril {

/// What a process needs of the sums.
enum class ReduceTo {
  kEveryProcess,  ///< all of it: the parameters' gradients become the sums
  kOwner,         ///< its own slot of each bucket; the parameters' gradients are dropped
};

/// A hook on each parameter copies its finished gradient into a flat bucket. A bucket with all its
/// gradients is sent at once, in the order of the buckets, which is the same on all processes.
/// Nothing is sent in backward passes that only accumulate.
/// Source: Li et al. 2020, "PyTorch Distributed", section 3.2.
class GradientReducer {
 public:
  /// `parameters` are numbered as in `buckets`; each must take part in every backward pass. With
  /// kOwner one may lie in several buckets, run by run. All references must outlive this object.
  GradientReducer(ProcessGroup& group,
                  std::vector<torch::Tensor> parameters,
                  const std::vector<Bucket>& buckets,
                  ReduceTo reduce_to,
                  torch::ScalarType wire);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// The coming backward pass completes the gradients.
  void expect_gradients();
  /// After that backward pass: waits until all sums are there.
  void finish();

  /// kOwner, between finish() and release(): this process's sums of a bucket, (slot).
  const torch::Tensor& own_sums(size_t bucket) const { return state_[bucket].slot; }
  /// Gives the memory back.
  void release();

  /// Seconds that finish() has waited since the last call: communication that nothing hid.
  double take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

 private:
  class Hook;
  struct BucketState {
    torch::Tensor flat;  ///< gradients, then (kEveryProcess) sums
    torch::Tensor slot;  ///< kOwner: sums
    size_t n_ready = 0;
    Pending pending;
  };
  struct Place {
    size_t bucket = 0;
    size_t member = 0;
  };

  void take(size_t parameter);
  void launch_complete_ones();

  ProcessGroup& group_;
  std::vector<torch::Tensor> parameters_;
  const std::vector<Bucket>& buckets_;
  ReduceTo reduce_to_;
  torch::ScalarType wire_;
  std::vector<std::vector<Place>> places_;  ///< of each parameter
  std::vector<BucketState> state_;
  size_t next_ = 0;  ///< the first bucket that is not on its way
  bool expecting_ = false;
  double exposed_seconds_ = 0;
};

}  // namespace tril
