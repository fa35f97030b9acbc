#pragma once
// Updates of whole matrices whose weights are cut.

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "own_parts.h"
#include "tril/distributed/process_group.h"
#include "weight_shards.h"

namespace tril {

/// Muon needs a whole matrix, Shard::kFull keeps an even share of each: so a matrix has one owner,
/// which has its gradient and its moment, and forms its update from zeros. Bucket by bucket each
/// process receives the part of the updates that belongs to its share of the weights, as the sum of
/// the owner's values and the others' zeros. Does nothing in a plan where weights lie with the
/// owner.
class MatrixUpdates {
 public:
  /// All references must outlive this object.
  MatrixUpdates(const std::vector<NamedTensor>& trained, WeightShards& shards, ProcessGroup& group);

  bool has(size_t bucket) const;
  /// The matrices of this process, for its optimizer: zeros between begin() and apply(), elsewhere
  /// without values.
  const std::vector<OwnPart>& own_parts() const { return own_parts_; }
  void begin();
  /// After the optimizer's step: weight <- keep * weight + update.
  ///   keep   of a parameter: 0-dim
  void apply(const std::function<torch::Tensor(const std::string& parameter)>& keep);

  /// Seconds that apply() waited for others since the last call.
  double take_exposed_seconds() { return std::exchange(exposed_seconds_, 0.0); }

 private:
  torch::Tensor own_share(size_t bucket);

  WeightShards& shards_;
  ProcessGroup& group_;
  torch::TensorOptions options_;
  std::vector<size_t> buckets_;
  std::vector<OwnPart> own_parts_;
  double exposed_seconds_ = 0;
};

}  // namespace tril
