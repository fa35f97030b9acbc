#pragma once
// distributed.shard "optimizer" and "full", and what they share with the plain form.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tril/train/parallel_optimizer.h"

namespace tril {

/// distributed.bucket_megabytes, in fp32 numbers.
int64_t bucket_numbers(const DistributedConfig& config);
torch::ScalarType wire_type(const DistributedConfig& config);
int64_t bytes_of_moments(const Optimizer& optimizer);

/// Parameters live in flat buckets, cut into one slot per process. Gradients are reduced to the
/// slot's owner, which has the slot's moments and updates it. AdamW works number by number, so a
/// slot may end anywhere; a matrix of Muon is one process's, whole.
///   optimizer  every process has all weights, and receives all slots after the update
///   full       of the weights every process keeps its slots; a unit's (embeddings, block, head)
///              are gathered when it computes, forward and backward, the next unit's meanwhile
/// Source: Rajbhandari et al. 2020 ("ZeRO"), stages 2 and 3.
class ShardedOptimizer : public ParallelOptimizer, public WeightLender {
 public:
  ShardedOptimizer(const std::vector<NamedTensor>& parameters,
                   const OptimizerConfig& config,
                   const DistributedConfig& distributed,
                   ProcessGroup& group);

  void zero_grad() override;
  void expect_gradients() override { reducer_->expect_gradients(); }
  GradientNorm reduce_gradients(double max_norm) override;
  void step(double factor, const GradientNorm& gradient) override;
  std::vector<NamedTensor> state() override;
  void load(const Checkpoint* checkpoint) override;
  std::vector<torch::Tensor> gradient_squares() override;
  std::shared_ptr<void> hold_weights() override;
  WeightLender* weight_lender() override { return buckets_of_unit_.empty() ? nullptr : this; }
  int64_t take_peak_weight_bytes() override;
  int64_t moment_bytes() const override { return bytes_of_moments(*optimizer_); }
  double take_exposed_seconds() override;

  void acquire(size_t unit) override;
  void release(size_t unit) override;

 private:
  /// The part of a parameter that lies in this process's slot.
  struct Piece {
    size_t bucket = 0;
    size_t parameter = 0;       ///< number among trained_
    int64_t slot_offset = 0;    ///< in the slot
    int64_t bucket_offset = 0;  ///< in the bucket
    torch::Tensor values;       ///< a view of the slot; 2-D where the parameter is
  };
  /// The weights of one bucket.
  struct Weights {
    torch::Tensor slot;  ///< this process's, always there; a view of `flat` unless lent
    torch::Tensor flat;  ///< all; of a lent unit only while it is held
    bool is_lent = false;
    int holders = 0;
    Pending pending;  ///< gathers `flat`
  };
  /// One moment of the members of one bucket, whole: what a checkpoint holds.
  struct FlatMoment {
    size_t bucket = 0;
    std::string kind;  ///< "exp_avg."
  };

  int64_t unit_of(const std::string& parameter) const;
  void move_parameters(const std::vector<int64_t>& unit_of_bucket);
  void find_pieces();
  /// The parameters of a bucket become views of its flat weights, or hold nothing.
  void show(size_t bucket);
  void hide(size_t bucket);
  void start_gathering(size_t bucket);
  void drop_unused();
  void count_weights();
  torch::Tensor empty_flat(size_t bucket) const;
  std::vector<FlatMoment> flat_moments() const;
  /// Views of a flat moment under the names of a checkpoint.
  void append_members(const FlatMoment& moment,
                      const torch::Tensor& flat,
                      std::vector<NamedTensor>& result) const;
  std::map<std::string, torch::Tensor> own_state() const;

  std::vector<NamedTensor> parameters_;  ///< all
  std::vector<NamedTensor> trained_;     ///< without the frozen ones
  ProcessGroup& group_;
  size_t n_blocks_;
  std::vector<bool> takes_muon_;  ///< of each trained one
  std::vector<Bucket> buckets_;
  torch::TensorOptions options_;  ///< of weights
  std::vector<Weights> weights_;  ///< of each bucket
  /// Of each unit that is lent; empty: all weights are always there.
  std::vector<std::vector<size_t>> buckets_of_unit_;
  size_t last_acquired_ = 0;
  int64_t peak_weight_bytes_ = 0;
  std::vector<Piece> pieces_;
  std::optional<Optimizer> optimizer_;  ///< over the pieces
  std::optional<GradientReducer> reducer_;
  double exposed_seconds_ = 0;
};

}  // namespace tril
