#include "weight_shards.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <chrono>

namespace tril {

WeightShards::WeightShards(const std::vector<NamedTensor>& trained,
                           ShardPlan plan,
                           ProcessGroup& group)
    : trained_(trained),
      plan_(std::move(plan)),
      group_(group),
      options_(trained[0].tensor.options().requires_grad(false)) {
  const torch::NoGradGuard no_grad;
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    Weights weights;
    weights.flat = zeros_for(plan_.buckets[b], group_.size(), options_);
    for (const BucketMember& member : plan_.buckets[b].members) {
      weights.flat.narrow(0, member.offset, member.count)
          .copy_(trained_[member.parameter].tensor.flatten().narrow(0, member.begin, member.count));
    }
    weights.slot = own_slot_of(weights.flat, b);
    weights_.push_back(weights);
    const auto parts = own_parts_of(plan_.buckets[b], b, trained_, group_.rank(), weights.slot);
    own_parts_.insert(own_parts_.end(), parts.begin(), parts.end());
    if (plan_.is_lent[b]) {
      hide(b);
      drop(b);
    } else {
      show(b);
    }
  }
  hide_cut_ones();  // all their parts have been read
}

torch::Tensor WeightShards::own_slot_of(const torch::Tensor& flat, size_t bucket) const {
  const int64_t slot = plan_.buckets[bucket].slot;
  return flat.narrow(0, group_.rank() * slot, slot);
}

bool WeightShards::is_cut(const BucketMember& member) const {
  return member.count != trained_[member.parameter].tensor.numel();
}

/// The optimizer's views go with it.
void WeightShards::move_slot(size_t bucket, const torch::Tensor& slot) {
  weights_[bucket].slot = slot;
  move_parts(own_parts_, bucket, slot);
}

/// The parameters of a bucket become views of its flat weights. One that is cut lies in several
/// buckets: rows() has its pieces.
void WeightShards::show(size_t bucket) {
  for (const BucketMember& member : plan_.buckets[bucket].members) {
    if (is_cut(member)) continue;
    torch::Tensor parameter = trained_[member.parameter].tensor;
    parameter.set_data(
        weights_[bucket].flat.narrow(0, member.offset, member.count).view(parameter.sizes()));
  }
}

/// The parameters of a bucket hold nothing again.
void WeightShards::hide(size_t bucket) {
  for (const BucketMember& member : plan_.buckets[bucket].members) {
    if (!is_cut(member)) hold_nothing(trained_[member.parameter].tensor);
  }
}

std::vector<torch::Tensor> WeightShards::cut_parameters() const {
  std::vector<torch::Tensor> result;
  for (const Bucket& bucket : plan_.buckets) {
    for (const BucketMember& member : bucket.members) {
      if (is_cut(member) && member.begin == 0) result.push_back(trained_[member.parameter].tensor);
    }
  }
  return result;
}

void WeightShards::hide_cut_ones() {
  for (const torch::Tensor& parameter : cut_parameters()) hold_nothing(parameter);
}

void WeightShards::hold_nothing(torch::Tensor parameter) const {
  parameter.set_data(shape_only(parameter.sizes(), options_));
}

void WeightShards::start_gathering(size_t bucket) {
  const torch::NoGradGuard no_grad;
  Weights& weights = weights_[bucket];
  if (weights.flat.defined()) return;
  weights.flat = zeros_for(plan_.buckets[bucket], group_.size(), options_);
  const torch::Tensor slot = own_slot_of(weights.flat, bucket);
  slot.copy_(weights.slot);
  count();
  move_slot(bucket, slot);
  weights.pending = group_.start_all_gather(weights.flat);
}

/// What the others keep goes; the own slot stays.
void WeightShards::drop(size_t bucket) {
  const torch::NoGradGuard no_grad;
  move_slot(bucket, weights_[bucket].slot.clone());
  count();
  weights_[bucket].flat.reset();
}

void WeightShards::acquire(size_t unit) {
  const auto begin = std::chrono::steady_clock::now();
  const auto& buckets_of_unit = plan_.buckets_of_unit;
  for (const size_t b : buckets_of_unit[unit]) {
    ++weights_[b].holders;
    start_gathering(b);
  }
  // Meanwhile the next one: on the way back from the head to the blocks the one before. Nothing is
  // gathered beyond the ends, where an update may come first.
  const bool forward = unit == 0 || unit > last_acquired_;
  const bool has_next = forward ? unit + 1 < buckets_of_unit.size() : unit > units().first_block;
  last_acquired_ = unit;
  if (has_next) {
    for (const size_t b : buckets_of_unit[forward ? unit + 1 : unit - 1]) start_gathering(b);
  }
  for (const size_t b : buckets_of_unit[unit]) {
    if (!weights_[b].pending) continue;  // it was there
    weights_[b].pending.wait();
    show(b);
  }
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void WeightShards::release(size_t unit) {
  for (const size_t b : plan_.buckets_of_unit[unit]) {
    if (--weights_[b].holders > 0) continue;
    hide(b);
    drop(b);
  }
  at::autocast::clear_cache();  // it would keep them, in bfloat16
}

torch::Tensor WeightShards::rows(const torch::Tensor& table,
                                 const RowPieces& pieces,
                                 size_t piece) const {
  for (const size_t b : plan_.buckets_of_unit[pieces.unit(piece)]) {
    for (const BucketMember& member : plan_.buckets[b].members) {
      if (!trained_[member.parameter].tensor.is_same(table)) continue;
      std::vector<int64_t> sizes = table.sizes().vec();
      sizes[0] = pieces.rows_of(piece);
      return weights_[b].flat.narrow(0, member.offset, member.count).view(sizes);
    }
  }
  return table.narrow(0, pieces.first_row(piece), pieces.rows_of(piece));  // frozen: always there
}

void WeightShards::send_updates() {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Pending> pending;
  for (size_t b = 0; b < weights_.size(); ++b) {
    if (!plan_.is_lent[b]) {
      pending.push_back(group_.start_all_gather(weights_[b].flat));
      continue;
    }
    TORCH_CHECK(!weights_[b].flat.defined(), "WeightShards: gathered weights outlive an update");
  }
  for (Pending& one : pending) one.wait();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::shared_ptr<void> WeightShards::hold_all() {
  if (!lends_anything()) return nullptr;
  if (n_holds_++ == 0) gather_all();
  return {this, [this](void*) {
            if (--n_holds_ == 0) scatter_all();
          }};
}

void WeightShards::gather_all() {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor parameter : cut_parameters()) {
    parameter.set_data(torch::empty(parameter.sizes(), options_));
  }
  for (size_t b = 0; b < weights_.size(); ++b) {
    if (!plan_.is_lent[b]) continue;
    start_gathering(b);
    weights_[b].pending.wait();
    show(b);
    bool is_in_use = false;
    for (const BucketMember& member : plan_.buckets[b].members) {
      if (is_cut(member)) {
        trained_[member.parameter]
            .tensor.view(-1)
            .narrow(0, member.begin, member.count)
            .copy_(weights_[b].flat.narrow(0, member.offset, member.count));
      } else {
        is_in_use = true;
      }
    }
    if (!is_in_use) drop(b);
  }
}

/// The own parts take over what may have been written.
void WeightShards::scatter_all() {
  const torch::NoGradGuard no_grad;
  for (OwnPart& part : own_parts_) {
    if (!plan_.is_lent[part.bucket]) continue;
    const torch::Tensor whole = trained_[part.parameter].tensor.view(-1);
    part.values.copy_(whole.narrow(0, part.begin, part.values.numel()).view(part.values.sizes()));
  }
  for (size_t b = 0; b < weights_.size(); ++b) {
    if (!plan_.is_lent[b]) continue;
    hide(b);
    if (weights_[b].flat.defined()) drop(b);
  }
  hide_cut_ones();
  peak_bytes_ = 0;  // the peak of training is what matters
}

void WeightShards::count() {
  int64_t bytes = 0;
  for (const Weights& weights : weights_) {
    if (weights.flat.defined()) bytes += static_cast<int64_t>(weights.flat.nbytes());
    if (!weights.flat.defined() || !weights.slot.is_alias_of(weights.flat)) {
      bytes += static_cast<int64_t>(weights.slot.nbytes());
    }
  }
  peak_bytes_ = std::max(peak_bytes_, bytes);
}

int64_t WeightShards::take_peak_bytes() {
  count();
  return std::exchange(peak_bytes_, 0);
}

}  // namespace tril
