#pragma once
// distributed.shard "optimizer" and "full", and what they share with the plain form.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "matrix_updates.h"
#include "tril/train/parallel_optimizer.h"
#include "weight_shards.h"

namespace tril {

/// distributed.bucket_megabytes, in fp32 numbers.
int64_t bucket_numbers(const DistributedConfig& config);
torch::ScalarType wire_type(const DistributedConfig& config);
int64_t bytes_of_moments(const Optimizer& optimizer);

/// Parameters live in flat buckets, cut into one slot per process. Gradients are reduced to the
/// slot's owner, which has the slot's moments and updates it. AdamW works number by number, so a
/// slot may end anywhere; a matrix of Muon is updated by one process, whole.
///   optimizer  every process has all weights, and receives all slots after the update
///   full       of the weights every process keeps its slots; a unit's (a block, a piece of the
///              embeddings or of the head) are gathered when it computes, forward and backward
/// Source: Rajbhandari et al. 2020 ("ZeRO"), stages 2 and 3.
class ShardedOptimizer : public ParallelOptimizer {
 public:
  ShardedOptimizer(const std::vector<NamedTensor>& parameters,
                   const OptimizerConfig& config,
                   const DistributedConfig& distributed,
                   ProcessGroup& group);

  void zero_grad() override;
  void expect_gradients() override { reducer_->expect_gradients(); }
  GradientNorm reduce_gradients(double max_norm, const torch::Tensor& loss_scale) override;
  void step(const torch::Tensor& factor, const GradientNorm& gradient) override;
  std::vector<NamedTensor> state() override;
  void load(const Checkpoint* checkpoint) override;
  std::vector<torch::Tensor> gradient_squares() override;
  std::shared_ptr<void> hold_weights() override { return shards_->hold_all(); }
  WeightLender* weight_lender() override { return shards_->lends_anything() ? &*shards_ : nullptr; }
  int64_t take_peak_weight_bytes() override { return shards_->take_peak_bytes(); }
  int64_t moment_bytes() const override { return bytes_of_moments(*optimizer_); }
  double take_exposed_seconds() override;

 private:
  /// One moment of the members of one bucket.
  struct FlatMoment {
    size_t bucket = 0;
    std::string kind;  ///< "exp_avg."
  };
  using Tensors = std::map<std::string, torch::Tensor>;

  std::vector<FlatMoment> flat_moments() const;
  /// Zeros on the CPU under the names of a checkpoint: each parameter's moments, whole.
  Tensors whole_moments() const;
  const std::vector<Bucket>& buckets() const { return shards_->plan().update_buckets; }
  /// The run of a whole moment that a member stands for.
  torch::Tensor run_of(const Tensors& whole,
                       const std::string& kind,
                       const BucketMember& member) const;
  /// This process's share, by the names of its parts.
  Tensors own_state() const;

  std::vector<NamedTensor> parameters_;  ///< all
  std::vector<NamedTensor> trained_;     ///< without the frozen ones
  ProcessGroup& group_;
  torch::TensorOptions options_;  ///< of weights
  std::optional<WeightShards> shards_;
  std::optional<MatrixUpdates> updates_;
  std::vector<OwnPart> parts_;  ///< what this process updates
  OptimizerConfig config_;
  LayerRates rates_;
  std::optional<Optimizer> optimizer_;  ///< over parts_
  std::optional<GradientReducer> reducer_;
};

}  // namespace tril
