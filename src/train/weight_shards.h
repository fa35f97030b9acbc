#pragma once
// The weights of a run that shares them out: in flat memory, a slot of each bucket per process.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "own_parts.h"
#include "shard_plan.h"
#include "tril/distributed/process_group.h"

namespace tril {

/// Holds the trained parameters, and lends those of the plan's units: of these every process keeps
/// its slots, and gathers a unit's when it is acquired, the next unit's meanwhile. So at most two
/// units' are there at once. Every process acquires the same units in the same order.
class WeightShards : public WeightLender {
 public:
  /// The parameters move into flat memory. `group` must outlive this object.
  WeightShards(const std::vector<NamedTensor>& trained, ShardPlan plan, ProcessGroup& group);

  const ShardPlan& plan() const { return plan_; }
  const std::vector<OwnPart>& own_parts() const { return own_parts_; }

  /// After an update of the own parts: all receive what is always there.
  void send_updates();
  /// All weights are there, whole, and may be written, as long as the result lives.
  std::shared_ptr<void> hold_all();
  /// The most bytes of weights since the last call; those that hold_all() gathered do not count.
  int64_t take_peak_bytes();
  /// Seconds that somebody waited for weights since the last call.
  double take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

  bool lends_anything() const { return !plan_.buckets_of_unit.empty(); }
  const LendingUnits& units() const override { return plan_.units; }
  bool is_lending() const override { return lends_anything() && n_holds_ == 0; }
  void acquire(size_t unit) override;
  void release(size_t unit) override;
  torch::Tensor rows(const torch::Tensor& table,
                     const RowPieces& pieces,
                     size_t piece) const override;

 private:
  /// The weights of one bucket.
  struct Weights {
    torch::Tensor slot;  ///< this process's; a view of `flat` while that is there
    torch::Tensor flat;  ///< all; of a lent bucket only while it is needed
    int holders = 0;
    Pending pending;  ///< gathers `flat`
  };

  torch::Tensor own_slot_of(const torch::Tensor& flat, size_t bucket) const;
  void move_slot(size_t bucket, const torch::Tensor& slot);
  bool is_cut(const BucketMember& member) const;
  void start_gathering(size_t bucket);
  void drop(size_t bucket);
  void show(size_t bucket);
  void hide(size_t bucket);
  /// Each once.
  std::vector<torch::Tensor> cut_parameters() const;
  void hide_cut_ones();
  void hold_nothing(torch::Tensor parameter) const;
  void gather_all();
  void scatter_all();
  void count();

  std::vector<NamedTensor> trained_;
  ShardPlan plan_;
  ProcessGroup& group_;
  torch::TensorOptions options_;
  std::vector<Weights> weights_;  ///< of each bucket
  std::vector<OwnPart> own_parts_;
  size_t last_acquired_ = 0;
  int n_holds_ = 0;
  int64_t peak_bytes_ = 0;
  double exposed_seconds_ = 0;
};

}  // namespace tril
