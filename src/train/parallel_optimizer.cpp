#include "tril/train/parallel_optimizer.h"

#include <algorithm>
#include <optional>

#include "sharded_optimizer.h"
#include "tril/optim/parameter_rules.h"
#include "tril/train/block_statistics.h"

namespace tril {
namespace {

/// Each process has all moments and makes the whole update; with several, on the same sums.
class ReplicatedOptimizer : public ParallelOptimizer {
 public:
  ReplicatedOptimizer(const std::vector<NamedTensor>& parameters,
                      const OptimizerConfig& config,
                      const DistributedConfig& distributed,
                      ProcessGroup* group)
      : parameters_(parameters), optimizer_(parameters, config), group_(group) {
    if (group == nullptr) return;
    const auto trained = tensors_of(without_frozen(parameters, config.frozen));
    std::vector<int64_t> sizes;
    for (const torch::Tensor& tensor : trained) sizes.push_back(tensor.numel());
    buckets_ = plan_buckets(
        sizes, std::vector<bool>(sizes.size(), false), group->size(), bucket_numbers(distributed));
    reducer_.emplace(*group, trained, buckets_, ReduceTo::kEveryProcess, wire_type(distributed));
  }

  void zero_grad() override {
    optimizer_.zero_grad();
    if (reducer_) reducer_->release();
  }
  void expect_gradients() override {
    if (reducer_) reducer_->expect_gradients();
  }
  GradientNorm reduce_gradients(double max_norm, const torch::Tensor& loss_scale) override {
    if (reducer_) reducer_->finish();
    return gradient_norm(optimizer_.gradients(), max_norm, loss_scale);
  }
  void step(const torch::Tensor& factor, const GradientNorm& gradient) override {
    optimizer_.step(factor, gradient);
  }

  std::vector<NamedTensor> state() override {
    if (group_ != nullptr && !group_->is_first()) return {};
    return optimizer_.state();
  }
  void load(const Checkpoint* checkpoint) override {
    const auto tensors = optimizer_.state();
    if (checkpoint != nullptr) checkpoint->load_optimizer(tensors);
    if (group_ == nullptr) return;
    for (const NamedTensor& tensor : tensors) group_->broadcast(tensor.tensor);
  }

  std::vector<torch::Tensor> gradient_squares() override {
    return squares_of_gradients(parameters_);
  }

  int64_t take_peak_weight_bytes() override {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : parameters_) bytes += static_cast<int64_t>(tensor.nbytes());
    return bytes;
  }
  int64_t moment_bytes() const override { return bytes_of_moments(optimizer_); }
  double take_exposed_seconds() override { return reducer_ ? reducer_->take_exposed_seconds() : 0; }

 private:
  std::vector<NamedTensor> parameters_;
  Optimizer optimizer_;
  ProcessGroup* group_;
  std::vector<Bucket> buckets_;
  std::optional<GradientReducer> reducer_;
};

}  // namespace

int64_t bucket_numbers(const DistributedConfig& config) {
  return std::max<int64_t>(1, static_cast<int64_t>(config.bucket_megabytes * 1e6 / 4));
}

torch::ScalarType wire_type(const DistributedConfig& config) {
  return config.reduce_precision == ReducePrecision::kBf16 ? torch::kBFloat16 : torch::kFloat32;
}

int64_t bytes_of_moments(const Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : optimizer.state()) {
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

std::unique_ptr<ParallelOptimizer> make_parallel_optimizer(
    const std::vector<NamedTensor>& parameters,
    const OptimizerConfig& optimizer,
    const DistributedConfig& distributed,
    ProcessGroup* group) {
  if (group != nullptr && distributed.shard != Shard::kNone) {
    return std::make_unique<ShardedOptimizer>(parameters, optimizer, distributed, *group);
  }
  return std::make_unique<ReplicatedOptimizer>(parameters, optimizer, distributed, group);
}

}  // namespace tril
