#include "sharded_optimizer.h"

#include "tril/optim/parameter_rules.h"

namespace tril {

ShardedOptimizer::ShardedOptimizer(const std::vector<NamedTensor>& parameters,
                                   const OptimizerConfig& config,
                                   const DistributedConfig& distributed,
                                   ProcessGroup& group)
    : parameters_(parameters),
      trained_(without_frozen(parameters, config.frozen)),
      group_(group),
      options_(trained_[0].tensor.options().requires_grad(false)),
      config_(config),
      rates_(parameters, config.layer_decay) {
  std::vector<bool> takes_muon;
  for (const NamedTensor& parameter : trained_) {
    takes_muon.push_back(config.name == OptimizerName::kMuon && is_muon_matrix(parameter));
  }
  const int64_t numbers = bucket_numbers(distributed);
  shards_.emplace(trained_,
                  distributed.shard == Shard::kFull
                      ? plan_lent_shards(parameters, trained_, takes_muon, group.size(), numbers)
                      : plan_shards(trained_, takes_muon, group.size(), numbers),
                  group);
  updates_.emplace(trained_, *shards_, group);
  parts_ = updates_->own_parts();
  for (const OwnPart& part : shards_->own_parts()) {
    if (!updates_->has(part.bucket)) parts_.push_back(part);
  }
  std::vector<NamedTensor> parts;
  for (const OwnPart& part : parts_) parts.push_back({part.name, part.values});
  optimizer_.emplace(parts, config, rates_);
  reducer_.emplace(
      group, tensors_of(trained_), buckets(), ReduceTo::kOwner, wire_type(distributed));
}

void ShardedOptimizer::zero_grad() {
  optimizer_->zero_grad();
  for (NamedTensor& parameter : trained_) parameter.tensor.mutable_grad().reset();
  reducer_->release();
}

GradientNorm ShardedOptimizer::reduce_gradients(double max_norm, const torch::Tensor& loss_scale) {
  const torch::NoGradGuard no_grad;
  reducer_->finish();
  torch::Tensor squares = torch::zeros({}, options_);
  for (const OwnPart& part : parts_) {
    part.values.mutable_grad() = reducer_->own_sums(part.bucket)
                                     .narrow(0, part.slot_offset, part.values.numel())
                                     .view(part.values.sizes());
  }
  if (!parts_.empty())
    squares = torch::stack(at::_foreach_norm(optimizer_->gradients())).square().sum();
  group_.all_reduce(squares, Combine::kSum);
  return gradient_norm_of(squares.sqrt(), max_norm, loss_scale);
}

void ShardedOptimizer::step(const torch::Tensor& factor, const GradientNorm& gradient) {
  updates_->begin();
  optimizer_->step(factor, gradient);
  updates_->apply([&](const std::string& parameter) {
    const torch::Tensor rate = factor * config_.matrix_learning_rate * rates_.factor(parameter);
    return kept_share(rate, config_.weight_decay, gradient);
  });
  shards_->send_updates();
}

double ShardedOptimizer::take_exposed_seconds() {
  return reducer_->take_exposed_seconds() + updates_->take_exposed_seconds() +
         shards_->take_exposed_seconds();
}

std::vector<ShardedOptimizer::FlatMoment> ShardedOptimizer::flat_moments() const {
  std::vector<FlatMoment> result;
  for (size_t b = 0; b < buckets().size(); ++b) {
    if (buckets()[b].whole_members) {
      result.push_back({b, "momentum."});
    } else {
      result.push_back({b, "exp_avg."});
      result.push_back({b, "exp_avg_sq."});
    }
  }
  return result;
}

ShardedOptimizer::Tensors ShardedOptimizer::whole_moments() const {
  Tensors result;
  for (const FlatMoment& moment : flat_moments()) {
    for (const BucketMember& member : buckets()[moment.bucket].members) {
      const auto& [name, tensor] = trained_[member.parameter];
      if (member.begin == 0) result[moment.kind + name] = torch::zeros(tensor.sizes());
    }
  }
  return result;
}

torch::Tensor ShardedOptimizer::run_of(const Tensors& whole,
                                       const std::string& kind,
                                       const BucketMember& member) const {
  return whole.at(kind + trained_[member.parameter].name)
      .view(-1)
      .narrow(0, member.begin, member.count);
}

ShardedOptimizer::Tensors ShardedOptimizer::own_state() const {
  Tensors result;
  for (const auto& [name, tensor] : optimizer_->state()) result[name] = tensor;
  return result;
}

std::vector<NamedTensor> ShardedOptimizer::state() {
  const torch::NoGradGuard no_grad;
  const Tensors own = own_state();
  const Tensors whole = group_.is_first() ? whole_moments() : Tensors();
  for (const FlatMoment& moment : flat_moments()) {
    torch::Tensor flat = zeros_for(buckets()[moment.bucket], group_.size(), options_);
    for (const OwnPart& part : parts_) {
      if (part.bucket != moment.bucket) continue;
      flat.narrow(0, part.bucket_offset, part.values.numel())
          .copy_(own.at(moment.kind + part.name).flatten());
    }
    group_.start_all_gather(flat).wait();
    if (!group_.is_first()) continue;
    // On the CPU, where a save needs them: a GPU never holds more than one bucket's.
    for (const BucketMember& member : buckets()[moment.bucket].members) {
      run_of(whole, moment.kind, member).copy_(flat.narrow(0, member.offset, member.count));
    }
  }
  std::vector<NamedTensor> result;
  for (const auto& [name, tensor] : whole) result.push_back({name, tensor});
  // The first process has the first numbers of each bucket of AdamW, so it counts its steps.
  if (group_.is_first() && own.contains("step")) result.push_back({"step", own.at("step")});
  return result;
}

void ShardedOptimizer::load(const Checkpoint* checkpoint) {
  const torch::NoGradGuard no_grad;
  Tensors own = own_state();
  Tensors whole;  // the first process's
  torch::Tensor step = torch::zeros({}, options_);
  if (checkpoint != nullptr) {
    whole = whole_moments();
    std::vector<NamedTensor> members;
    for (const auto& [name, tensor] : whole) members.push_back({name, tensor});
    if (own.contains("step")) members.push_back({"step", step});
    checkpoint->load_optimizer(members);
  }
  group_.broadcast(step);
  if (own.contains("step")) own.at("step").copy_(step);
  for (const FlatMoment& moment : flat_moments()) {
    torch::Tensor flat = zeros_for(buckets()[moment.bucket], group_.size(), options_);
    if (checkpoint != nullptr) {
      for (const BucketMember& member : buckets()[moment.bucket].members) {
        flat.narrow(0, member.offset, member.count).copy_(run_of(whole, moment.kind, member));
      }
    }
    group_.broadcast(flat);
    for (const OwnPart& part : parts_) {
      if (part.bucket != moment.bucket) continue;
      own.at(moment.kind + part.name)
          .copy_(flat.narrow(0, part.bucket_offset, part.values.numel()).view(part.values.sizes()));
    }
  }
}

std::vector<torch::Tensor> ShardedOptimizer::gradient_squares() {
  const torch::NoGradGuard no_grad;
  torch::Tensor squares =
      torch::zeros({static_cast<int64_t>(trained_.size())}, options_.dtype(torch::kFloat64));
  for (const OwnPart& part : parts_) {
    squares[static_cast<int64_t>(part.parameter)] +=
        part.values.grad().square().sum(torch::kFloat64);
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
