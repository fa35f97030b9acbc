#pragma once
// What the Gloo and NCCL groups share.

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "store.h"
#include "tril/distributed/process_group.h"

namespace tril {

using BackendPointer = c10::intrusive_ptr<c10d::Backend>;

/// A Gloo backend of its own, with connections of its own, under `prefix` of the store.
BackendPointer make_gloo_backend(Rendezvous& rendezvous,
                                 const std::string& prefix,
                                 double timeout_seconds);

/// Small operations through one backend.
Pending start_small_all_reduce(c10d::Backend& backend, torch::Tensor& tensor, Combine combine);
void small_broadcast(c10d::Backend& backend, const torch::Tensor& tensor);

/// Does jobs in the order in which they come, on a thread of its own.
class JobThread {
 public:
  JobThread() : thread_([this] { work(); }) {}
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  /// wait() throws what the job threw.
  Pending add(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

std::unique_ptr<ProcessGroup> make_gloo_group(Rendezvous& rendezvous,
                                              double timeout_seconds,
                                              const std::string& name);
/// ConfigError where the build has no NCCL.
std::unique_ptr<ProcessGroup> make_nccl_group(Rendezvous& rendezvous,
                                              torch::Device device,
                                              double timeout_seconds,
                                              const std::string& name);

}  // namespace tril
