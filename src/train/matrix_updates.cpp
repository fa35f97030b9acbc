#include "matrix_updates.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace tril {

MatrixUpdates::MatrixUpdates(const std::vector<NamedTensor>& trained,
                             WeightShards& shards,
                             ProcessGroup& group)
    : shards_(shards), group_(group), options_(trained[0].tensor.options().requires_grad(false)) {
  const ShardPlan& plan = shards.plan();
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    if (plan.update_buckets[b].whole_members == plan.buckets[b].whole_members) continue;
    buckets_.push_back(b);
    const auto parts = own_parts_of(plan.update_buckets[b],
                                    b,
                                    trained,
                                    group.rank(),
                                    shape_only({plan.update_buckets[b].slot}, options_));
    own_parts_.insert(own_parts_.end(), parts.begin(), parts.end());
  }
}

bool MatrixUpdates::has(size_t bucket) const {
  return std::find(buckets_.begin(), buckets_.end(), bucket) != buckets_.end();
}

void MatrixUpdates::begin() {
  const torch::NoGradGuard no_grad;
  for (OwnPart& part : own_parts_)
    part.values.set_data(torch::zeros(part.values.sizes(), options_));
}

/// The updates of this process's share of a bucket's weights; those of its matrices go.
torch::Tensor MatrixUpdates::own_share(size_t bucket) {
  const Bucket& weights = shards_.plan().buckets[bucket];
  std::map<size_t, int64_t> offsets;  // of parameters
  for (const BucketMember& member : weights.members) offsets[member.parameter] = member.offset;
  torch::Tensor flat = zeros_for(weights, group_.size(), options_);
  for (OwnPart& part : own_parts_) {
    if (part.bucket != bucket) continue;
    flat.narrow(0, offsets.at(part.parameter), part.values.numel()).copy_(part.values.flatten());
    part.values.set_data(shape_only(part.values.sizes(), options_));
  }
  torch::Tensor share = torch::empty({weights.slot}, options_);
  const auto begin = std::chrono::steady_clock::now();
  group_.start_reduce_scatter(flat, share, torch::kFloat32).wait();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return share;
}

void MatrixUpdates::apply(const std::function<torch::Tensor(const std::string& parameter)>& keep) {
  const torch::NoGradGuard no_grad;
  for (const size_t b : buckets_) {
    const torch::Tensor share = own_share(b);
    for (const OwnPart& part : shards_.own_parts()) {
      if (part.bucket != b) continue;
      torch::Tensor values = part.values;
      values.mul_(keep(part.name))
          .add_(share.narrow(0, part.slot_offset, values.numel()).view(values.sizes()));
    }
  }
}

}  // namespace tril
