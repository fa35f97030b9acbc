#pragma once
// The collective operations that training needs, on LibTorch's own c10d: Gloo between CPUs, NCCL
// between GPUs.
//
// Every process calls the same operations in the same order, with tensors of equal shape and type.
// A process that has gone, or does not answer within the time-out, makes them throw PeerError.

#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tril/distributed/rendezvous.h"

namespace tril {

/// An operation under way. wait() throws what went wrong in it.
class Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  /// Until it is done; on a GPU: until the current stream will see it done.
  void wait() {
    if (auto wait = std::exchange(wait_, nullptr)) wait();
  }
  explicit operator bool() const { return static_cast<bool>(wait_); }

 private:
  std::function<void()> wait_;
};

/// How the values of the processes become one.
enum class Combine { kSum, kMax };

class ProcessGroup {
 public:
  ProcessGroup(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  /// "Gloo", "NCCL"
  virtual std::string name() const = 0;

  /// In place; contiguous. For small tensors on the CPU or the group's device.
  virtual Pending start_all_reduce(torch::Tensor& tensor, Combine combine) = 0;
  void all_reduce(torch::Tensor& tensor, Combine combine) {
    start_all_reduce(tensor, combine).wait();
  }
  /// Rank 0's values for all, in place; contiguous.
  virtual void broadcast(const torch::Tensor& tensor) = 0;
  /// Rank 0's text for all.
  std::string broadcast_text(const std::string& text);

  // For large ones: `flat` is 1-D, contiguous, fp32, of size() equal slots, one per process in the
  // order of ranks. It must not be touched before the operation is done. `wire` is kFloat32, or
  // kBFloat16: what travels is rounded to it, sums are formed in fp32. Between CPUs sums are formed
  // in the order of ranks, so they do not depend on how flat tensors are cut into operations.

  /// The sum in every slot, on all processes: reduce-scatter, then all-gather.
  virtual Pending start_flat_all_reduce(torch::Tensor flat, torch::ScalarType wire) = 0;
  /// The sum of this process's slot into `slot`.
  virtual Pending start_reduce_scatter(torch::Tensor flat,
                                       torch::Tensor slot,
                                       torch::ScalarType wire) = 0;
  /// Every process's own slot into all slots.
  virtual Pending start_all_gather(torch::Tensor flat) = 0;

  /// What the flat operations took since the last call, seconds and bytes sent by this process. On
  /// a GPU the seconds are 0: its operations run on a stream of their own.
  struct Traffic {
    double seconds = 0;
    int64_t bytes = 0;
  };
  Traffic take_traffic();

 protected:
  void count_traffic(int64_t nanoseconds, int64_t bytes);

 private:
  int64_t rank_;
  int64_t size_;
  std::atomic<int64_t> busy_nanoseconds_{0};
  std::atomic<int64_t> bytes_sent_{0};
};

/// The group of all processes of the rendezvous; all call it. `name` tells several groups apart.
/// CUDA without NCCL in this build is a ConfigError.
std::unique_ptr<ProcessGroup> make_process_group(Rendezvous& rendezvous,
                                                 torch::Device device,
                                                 double timeout_seconds,
                                                 const std::string& name = "0");

/// Throws PeerError unless all processes have tensors of equal bytes. `what` names them.
void require_equal_everywhere(ProcessGroup& group,
                              const std::vector<torch::Tensor>& tensors,
                              const std::string& what);

}  // namespace tril
