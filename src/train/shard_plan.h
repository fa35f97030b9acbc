#pragma once
// Which process keeps which numbers of the parameters, and what is lent together.

#include <vector>

#include "tril/distributed/buckets.h"
#include "tril/model/weight_lender.h"
#include "tril/optim/parameters.h"

namespace tril {

struct ShardPlan {
  std::vector<Bucket> buckets;  ///< of weights; members are numbered among the trained parameters
  /// Of gradients, moments and updates: the same members in the same buckets. They lie elsewhere in
  /// it where one process updates a matrix whole (Muon) and its weights are cut evenly (kFull).
  std::vector<Bucket> update_buckets;
  std::vector<bool> is_lent;                         ///< of each bucket
  LendingUnits units;                                ///< if anything is lent
  std::vector<std::vector<size_t>> buckets_of_unit;  ///< empty: all weights are always there
};

/// Buckets of at least bucket_numbers numbers, all weights always there (Shard::kOptimizer).
///   trained        what has gradients
///   whole          of each: one process must update it, so it lies in that one's slot
ShardPlan plan_shards(const std::vector<NamedTensor>& trained,
                      const std::vector<bool>& whole,
                      int64_t n_processes,
                      int64_t bucket_numbers);

/// Buckets for each unit (Shard::kFull). Embeddings and head are cut into pieces of rows that are
/// no larger than a block; only the final norm, which the backward pass reads and which is small,
/// is always there. All weights are cut evenly.
///   parameters     all of the model, frozen ones too
ShardPlan plan_lent_shards(const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& trained,
                           const std::vector<bool>& whole,
                           int64_t n_processes,
                           int64_t bucket_numbers);

}  // namespace tril
