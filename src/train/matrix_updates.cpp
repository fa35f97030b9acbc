#include "matrix_updates.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace tril {

MatrixUpdates::MatrixUpdates(const std::vector<NamedTensor>& trained,
                             WeightShards& shards,
                             ProcessGroup& group)
    : shards_(shards),
      group_(group),
      options_(trained[0].tensor.options().requires_grad(false)),
      slots_(shards.plan().buckets.size()) {
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
  for (const size_t b : buckets_) {
    slots_[b] = torch::zeros({shards_.plan().update_buckets[b].slot}, options_);
    move_parts(own_parts_, b, slots_[b]);
  }
}

/// All processes' updates of a bucket; its slot is not needed any more.
torch::Tensor MatrixUpdates::gather(size_t bucket) {
  const int64_t slot = slots_[bucket].numel();
  torch::Tensor flat = torch::empty({slot * group_.size()}, options_);
  flat.narrow(0, group_.rank() * slot, slot).copy_(slots_[bucket]);
  move_parts(own_parts_, bucket, shape_only({slot}, options_));
  slots_[bucket].reset();
  const auto begin = std::chrono::steady_clock::now();
  group_.start_all_gather(flat).wait();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return flat;
}

void MatrixUpdates::apply(const std::function<torch::Tensor(const std::string& parameter)>& keep) {
  const torch::NoGradGuard no_grad;
  for (const size_t b : buckets_) {
    const torch::Tensor updates = gather(b);
    std::map<size_t, int64_t> offsets;  // of parameters in `updates`
    for (const BucketMember& member : shards_.plan().update_buckets[b].members) {
      offsets[member.parameter] = member.offset;
    }
    for (const OwnPart& part : shards_.own_parts()) {
      if (part.bucket != b) continue;
      torch::Tensor values = part.values;
      values.mul_(keep(part.name))
          .add_(updates.narrow(0, offsets.at(part.parameter) + part.begin, values.numel())
                    .view(values.sizes()));
    }
  }
}

}  // namespace tril
