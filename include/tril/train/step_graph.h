#pragma once
// A training step as one CUDA graph.

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace tril {

/// Runs the same work again and again. On a GPU the first runs are plain ones, on a stream of their
/// own, so that every library has its workspace; then the work's kernels are recorded, and from
/// there on a run is one launch of the recording. On the CPU every run is a plain one.
///
/// The work must be the same each time: it reads and writes tensors that stay where they are, waits
/// for nothing, and draws no random numbers. What it does on the CPU happens in plain runs and
/// while recording only.
class StepGraph {
 public:
  static constexpr int64_t kPlainRuns = 3;

  explicit StepGraph(torch::Device device);
  ~StepGraph();

  /// One run. ConfigError where the work cannot be recorded, or this LibTorch records none.
  void run(const std::function<void()>& work);

 private:
  struct Recording;
  torch::Device device_;
  int64_t runs_ = 0;
  std::unique_ptr<Recording> recording_;  ///< none on the CPU
};

}  // namespace tril
