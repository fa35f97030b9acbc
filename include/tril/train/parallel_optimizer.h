#pragma once
// The optimizer of a run, on one process or on several: gradients added up over all of them, and
// with distributed.shard optimizer each process's share of the moments and of the update.

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "tril/checkpoint/checkpoint.h"
#include "tril/config/distributed_config.h"
#include "tril/config/optimizer_config.h"
#include "tril/distributed/gradient_reducer.h"
#include "tril/distributed/process_group.h"
#include "tril/model/weight_lender.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/optimizer.h"

namespace tril {

/// In each step: zero_grad(); backward passes, the last one after expect_gradients();
/// reduce_gradients(); step(). With several processes each of these calls, and save and load, is
/// made by all of them.
class ParallelOptimizer {
 public:
  virtual ~ParallelOptimizer() = default;

  virtual void zero_grad() = 0;
  /// The coming backward pass is the last of this step: its gradients are on their way while it
  /// runs.
  virtual void expect_gradients() = 0;
  /// Waits for the sums over all processes, and measures them; arguments as of gradient_norm.
  virtual GradientNorm reduce_gradients(double max_norm, const torch::Tensor& loss_scale) = 0;
  /// factor: as of Optimizer::step.
  virtual void step(const torch::Tensor& factor, const GradientNorm& gradient) = 0;

  /// What a checkpoint holds, whole and under the names of a single process; on the first process
  /// only, on the others nothing.
  virtual std::vector<NamedTensor> state() = 0;
  /// The first process reads the checkpoint (the others give none) and hands out the shares.
  virtual void load(const Checkpoint* checkpoint) = 0;

  /// Sum of squares of each parameter's gradient, 0-dim double, after reduce_gradients(); 0 for a
  /// frozen one.
  virtual std::vector<torch::Tensor> gradient_squares() = 0;

  /// All weights are there, and may be written, as long as the result lives. Matters with
  /// Shard::kFull only; elsewhere it does nothing.
  virtual std::shared_ptr<void> hold_weights() { return nullptr; }
  /// Who lends the blocks their weights; none: they are always there.
  virtual WeightLender* weight_lender() { return nullptr; }
  /// The most bytes of weights that were in this process at once since the last call.
  virtual int64_t take_peak_weight_bytes() = 0;

  /// Bytes of moments in this process.
  virtual int64_t moment_bytes() const = 0;
  /// Communication since the last call: seconds that training waited for it.
  virtual double take_exposed_seconds() = 0;
};

/// `parameters`: all of the model, each once. `group`: none for a single process; else it must
/// outlive the optimizer. With Shard::kOptimizer the parameters move into flat memory.
std::unique_ptr<ParallelOptimizer> make_parallel_optimizer(
    const std::vector<NamedTensor>& parameters,
    const OptimizerConfig& optimizer,
    const DistributedConfig& distributed,
    ProcessGroup* group);

}  // namespace tril
