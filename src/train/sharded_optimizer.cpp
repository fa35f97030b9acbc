#include "sharded_optimizer.h"

#include <algorithm>
#include <chrono>

#include "tril/optim/parameter_rules.h"

namespace tril {
namespace {

size_t count_blocks(const std::vector<NamedTensor>& parameters) {
  int64_t n = 0;
  for (const NamedTensor& parameter : parameters) {
    n = std::max(n, block_of(parameter.name).value_or(-1) + 1);
  }
  return static_cast<size_t>(n);
}

}  // namespace

/// The unit with which a parameter is lent; -1: it is always there. (The backward pass reads the
/// final norm's weights, which are few.)
int64_t ShardedOptimizer::unit_of(const std::string& parameter) const {
  if (const auto block = block_of(parameter)) {
    return static_cast<int64_t>(block_unit(static_cast<size_t>(*block)));
  }
  if (parameter.starts_with("final_norm.")) return -1;
  return static_cast<int64_t>(parameter.starts_with("lm_head.") ? head_unit(n_blocks_)
                                                                : kEmbeddingUnit);
}

ShardedOptimizer::ShardedOptimizer(const std::vector<NamedTensor>& parameters,
                                   const OptimizerConfig& config,
                                   const DistributedConfig& distributed,
                                   ProcessGroup& group)
    : parameters_(parameters),
      trained_(without_frozen(parameters, config.frozen)),
      group_(group),
      n_blocks_(count_blocks(parameters)),
      options_(trained_[0].tensor.options().requires_grad(false)) {
  std::vector<int64_t> sizes, units;
  for (const NamedTensor& parameter : trained_) {
    sizes.push_back(parameter.tensor.numel());
    takes_muon_.push_back(config.name == OptimizerName::kMuon && is_muon_matrix(parameter));
    units.push_back(distributed.shard == Shard::kFull ? unit_of(parameter.name) : -1);
  }
  std::vector<int64_t> unit_of_bucket;
  buckets_ = plan_buckets_by_unit(
      sizes, takes_muon_, units, group.size(), bucket_numbers(distributed), unit_of_bucket);
  if (distributed.shard == Shard::kFull) buckets_of_unit_.resize(head_unit(n_blocks_) + 1);
  move_parameters(unit_of_bucket);
  find_pieces();
  std::vector<NamedTensor> pieces;
  for (const Piece& piece : pieces_) {
    pieces.push_back({trained_[piece.parameter].name, piece.values});
  }
  optimizer_.emplace(pieces, config, LayerRates(parameters, config.layer_decay));
  reducer_.emplace(group, tensors_of(trained_), buckets_, ReduceTo::kOwner, wire_type(distributed));
}

torch::Tensor ShardedOptimizer::empty_flat(size_t bucket) const {
  return torch::zeros({buckets_[bucket].slot * group_.size()}, options_);
}

/// The same values in flat memory, so that one operation hands out a whole bucket.
void ShardedOptimizer::move_parameters(const std::vector<int64_t>& unit_of_bucket) {
  const torch::NoGradGuard no_grad;
  const bool head_is_tied = std::none_of(parameters_.begin(), parameters_.end(), [](const auto& p) {
    return p.name == "lm_head.weight";
  });
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    Weights weights;
    weights.flat = empty_flat(b);
    for (const BucketMember& member : bucket.members) {
      weights.flat.narrow(0, member.offset, member.count)
          .copy_(trained_[member.parameter].tensor.detach().flatten());
    }
    weights.slot = weights.flat.narrow(0, group_.rank() * bucket.slot, bucket.slot);
    weights_.push_back(weights);
    if (unit_of_bucket[b] < 0) {
      show(b);
      continue;
    }
    const auto unit = static_cast<size_t>(unit_of_bucket[b]);
    buckets_of_unit_[unit].push_back(b);
    if (unit == kEmbeddingUnit && head_is_tied) buckets_of_unit_[head_unit(n_blocks_)].push_back(b);
    weights_[b].is_lent = true;
    weights_[b].slot = weights.slot.clone();
    hide(b);
  }
}

void ShardedOptimizer::show(size_t bucket) {
  for (const BucketMember& member : buckets_[bucket].members) {
    torch::Tensor parameter = trained_[member.parameter].tensor;
    parameter.set_data(
        weights_[bucket].flat.narrow(0, member.offset, member.count).view(parameter.sizes()));
  }
}

void ShardedOptimizer::hide(size_t bucket) {
  for (const BucketMember& member : buckets_[bucket].members) {
    torch::Tensor parameter = trained_[member.parameter].tensor;
    // Of the same shape, for those who only ask for it.
    parameter.set_data(torch::zeros({1}, options_).expand(parameter.sizes()));
  }
  weights_[bucket].flat.reset();
}

void ShardedOptimizer::start_gathering(size_t bucket) {
  const torch::NoGradGuard no_grad;
  Weights& weights = weights_[bucket];
  if (weights.flat.defined()) return;
  weights.flat = empty_flat(bucket);
  weights.flat.narrow(0, group_.rank() * buckets_[bucket].slot, buckets_[bucket].slot)
      .copy_(weights.slot);
  weights.pending = group_.start_all_gather(weights.flat);
}

void ShardedOptimizer::acquire(size_t unit) {
  const auto begin = std::chrono::steady_clock::now();
  for (const size_t b : buckets_of_unit_[unit]) {
    if (weights_[b].holders++ == 0) start_gathering(b);
  }
  // Meanwhile the next one: on the way back through the blocks the one before. Nothing is gathered
  // beyond the ends, where an update may come first.
  const bool forward = unit == kEmbeddingUnit || unit > last_acquired_;
  const bool has_next = forward ? unit + 1 < buckets_of_unit_.size() : unit > block_unit(0);
  last_acquired_ = unit;
  if (has_next) {
    for (const size_t b : buckets_of_unit_[forward ? unit + 1 : unit - 1]) start_gathering(b);
  }
  for (const size_t b : buckets_of_unit_[unit]) {
    if (!weights_[b].pending) continue;  // it was there
    weights_[b].pending.wait();
    show(b);
  }
  count_weights();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void ShardedOptimizer::release(size_t unit) {
  for (const size_t b : buckets_of_unit_[unit]) {
    if (--weights_[b].holders == 0) hide(b);
  }
}

std::shared_ptr<void> ShardedOptimizer::hold_weights() {
  if (buckets_of_unit_.empty()) return nullptr;
  for (size_t unit = 0; unit < buckets_of_unit_.size(); ++unit) acquire(unit);
  return {this, [this](void*) {
            const torch::NoGradGuard no_grad;
            for (size_t unit = 0; unit < buckets_of_unit_.size(); ++unit) {
              for (const size_t b : buckets_of_unit_[unit]) {
                const int64_t slot = buckets_[b].slot;
                weights_[b].slot.copy_(weights_[b].flat.narrow(0, group_.rank() * slot, slot));
              }
              release(unit);
            }
            peak_weight_bytes_ = 0;  // the peak of training is what matters
          }};
}

/// What was gathered ahead and not asked for is old after the update.
void ShardedOptimizer::drop_unused() {
  for (Weights& weights : weights_) {
    if (!weights.is_lent || weights.holders > 0 || !weights.flat.defined()) continue;
    weights.pending.wait();
    weights.flat.reset();
  }
}

void ShardedOptimizer::count_weights() {
  int64_t bytes = 0;
  for (const Weights& weights : weights_) {
    if (weights.flat.defined()) bytes += static_cast<int64_t>(weights.flat.nbytes());
    if (weights.is_lent) bytes += static_cast<int64_t>(weights.slot.nbytes());
  }
  peak_weight_bytes_ = std::max(peak_weight_bytes_, bytes);
}

int64_t ShardedOptimizer::take_peak_weight_bytes() {
  count_weights();
  return std::exchange(peak_weight_bytes_, 0);
}

void ShardedOptimizer::find_pieces() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const int64_t slot_begin = group_.rank() * buckets_[b].slot;
    const int64_t slot_end = slot_begin + buckets_[b].slot;
    for (const BucketMember& member : buckets_[b].members) {
      const int64_t begin = std::max(slot_begin, member.offset);
      const int64_t end = std::min(slot_end, member.offset + member.count);
      if (begin >= end) continue;
      const torch::Tensor& parameter = trained_[member.parameter].tensor;
      torch::Tensor values = weights_[b].slot.narrow(0, begin - slot_begin, end - begin);
      // The rules ask for the number of dimensions: a part of a matrix is a matrix of one row.
      if (end - begin == member.count) {
        values = values.view(parameter.sizes());
      } else if (parameter.dim() >= 2) {
        values = values.unsqueeze(0);
      }
      pieces_.push_back({.bucket = b,
                         .parameter = member.parameter,
                         .slot_offset = begin - slot_begin,
                         .bucket_offset = begin,
                         .values = values});
    }
  }
}

void ShardedOptimizer::zero_grad() {
  optimizer_->zero_grad();
  for (NamedTensor& parameter : trained_) parameter.tensor.mutable_grad().reset();
  reducer_->release();
}

GradientNorm ShardedOptimizer::reduce_gradients(double max_norm) {
  const torch::NoGradGuard no_grad;
  reducer_->finish();
  torch::Tensor squares = torch::zeros({}, options_);
  for (Piece& piece : pieces_) {
    piece.values.mutable_grad() = reducer_->own_sums(piece.bucket)
                                      .narrow(0, piece.slot_offset, piece.values.numel())
                                      .view(piece.values.sizes());
  }
  if (!pieces_.empty())
    squares = torch::stack(at::_foreach_norm(optimizer_->gradients())).square().sum();
  group_.all_reduce(squares, Combine::kSum);
  return gradient_norm_of(squares.sqrt(), max_norm);
}

void ShardedOptimizer::step(double factor, const GradientNorm& gradient) {
  drop_unused();
  optimizer_->step(factor, gradient);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Pending> pending;
  for (const Weights& weights : weights_) {
    if (!weights.is_lent) pending.push_back(group_.start_all_gather(weights.flat));
  }
  for (Pending& one : pending) one.wait();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double ShardedOptimizer::take_exposed_seconds() {
  return reducer_->take_exposed_seconds() + std::exchange(exposed_seconds_, 0.0);
}

std::vector<ShardedOptimizer::FlatMoment> ShardedOptimizer::flat_moments() const {
  std::vector<FlatMoment> result;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_[b].whole_members) {
      result.push_back({b, "momentum."});
    } else {
      result.push_back({b, "exp_avg."});
      result.push_back({b, "exp_avg_sq."});
    }
  }
  return result;
}

void ShardedOptimizer::append_members(const FlatMoment& moment,
                                      const torch::Tensor& flat,
                                      std::vector<NamedTensor>& result) const {
  for (const BucketMember& member : buckets_[moment.bucket].members) {
    const NamedTensor& parameter = trained_[member.parameter];
    result.push_back({moment.kind + parameter.name,
                      flat.narrow(0, member.offset, member.count).view(parameter.tensor.sizes())});
  }
}

std::map<std::string, torch::Tensor> ShardedOptimizer::own_state() const {
  std::map<std::string, torch::Tensor> result;
  for (const auto& [name, tensor] : optimizer_->state()) result[name] = tensor;
  return result;
}

std::vector<NamedTensor> ShardedOptimizer::state() {
  const torch::NoGradGuard no_grad;
  const auto own = own_state();
  std::vector<NamedTensor> result;
  for (const FlatMoment& moment : flat_moments()) {
    torch::Tensor flat = empty_flat(moment.bucket);
    for (const Piece& piece : pieces_) {
      if (piece.bucket != moment.bucket) continue;
      flat.narrow(0, piece.bucket_offset, piece.values.numel())
          .copy_(own.at(moment.kind + trained_[piece.parameter].name).flatten());
    }
    group_.start_all_gather(flat).wait();
    // A save needs them on the CPU anyway: a GPU never holds more than one bucket's.
    if (group_.is_first()) append_members(moment, flat.to(torch::kCPU), result);
  }
  // The first process has the first numbers of each bucket of AdamW, so it counts its steps.
  if (group_.is_first() && own.contains("step")) result.push_back({"step", own.at("step")});
  return result;
}

void ShardedOptimizer::load(const Checkpoint* checkpoint) {
  const torch::NoGradGuard no_grad;
  auto own = own_state();
  const auto moments = flat_moments();
  std::vector<torch::Tensor> whole;  // the first process's
  torch::Tensor step = torch::zeros({}, options_);
  if (checkpoint != nullptr) {
    std::vector<NamedTensor> members;
    for (const FlatMoment& moment : moments) {
      whole.push_back(torch::zeros({buckets_[moment.bucket].slot * group_.size()}));  // CPU
      append_members(moment, whole.back(), members);
    }
    if (own.contains("step")) members.push_back({"step", step});
    checkpoint->load_optimizer(members);
  }
  group_.broadcast(step);
  if (own.contains("step")) own.at("step").copy_(step);
  for (size_t m = 0; m < moments.size(); ++m) {
    const FlatMoment& moment = moments[m];
    torch::Tensor flat = empty_flat(moment.bucket);
    if (checkpoint != nullptr) flat.copy_(whole[m]);
    group_.broadcast(flat);
    for (const Piece& piece : pieces_) {
      if (piece.bucket != moment.bucket) continue;
      own.at(moment.kind + trained_[piece.parameter].name)
          .copy_(
              flat.narrow(0, piece.bucket_offset, piece.values.numel()).view(piece.values.sizes()));
    }
  }
}

std::vector<torch::Tensor> ShardedOptimizer::gradient_squares() {
  const torch::NoGradGuard no_grad;
  torch::Tensor squares =
      torch::zeros({static_cast<int64_t>(trained_.size())}, options_.dtype(torch::kFloat64));
  for (const Piece& piece : pieces_) {
    squares[static_cast<int64_t>(piece.parameter)] =
        piece.values.grad().square().sum(torch::kFloat64);
  }
  group_.all_reduce(squares, Combine::kSum);
  std::map<std::string, torch::Tensor> by_name;
  for (size_t i = 0; i < trained_.size(); ++i) {
    by_name[trained_[i].name] = squares[static_cast<int64_t>(i)];
  }
  std::vector<torch::Tensor> result;
  for (const auto& [name, tensor] : parameters_) {
    const auto found = by_name.find(name);
    result.push_back(found != by_name.end()
                         ? found->second
                         : torch::zeros({}, tensor.options().dtype(torch::kFloat64)));
  }
  return result;
}

}  // namespace tril
