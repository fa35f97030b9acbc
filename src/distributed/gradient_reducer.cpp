#include "tril/distributed/gradient_reducer.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>

namespace tril {
namespace {

/// Padding travels too: it must not be what some other memory held.
void zero_padding(const Bucket& bucket, torch::Tensor& flat) {
  int64_t end = 0;
  const auto zero_up_to = [&](int64_t begin) {
    if (begin > end) flat.narrow(0, end, begin - end).zero_();
  };
  for (const BucketMember& member : bucket.members) {
    zero_up_to(member.offset);
    end = member.offset + member.count;
  }
  zero_up_to(flat.numel());
}

}  // namespace

class GradientReducer::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientReducer& reducer, size_t parameter) : reducer_(reducer), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable&) override { reducer_.take(parameter_); }

 private:
  GradientReducer& reducer_;
  size_t parameter_;
};

GradientReducer::GradientReducer(ProcessGroup& group,
                                 std::vector<torch::Tensor> parameters,
                                 const std::vector<Bucket>& buckets,
                                 ReduceTo reduce_to,
                                 torch::ScalarType wire)
    : group_(group),
      parameters_(std::move(parameters)),
      buckets_(buckets),
      reduce_to_(reduce_to),
      wire_(wire),
      places_(parameters_.size()),
      state_(buckets.size()) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (size_t m = 0; m < buckets_[b].members.size(); ++m) {
      places_[buckets_[b].members[m].parameter].push_back({b, m});
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i],
                                                   std::make_unique<Hook>(*this, i));
  }
}

GradientReducer::~GradientReducer() {
  for (const torch::Tensor& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }
}

void GradientReducer::expect_gradients() {
  for (BucketState& state : state_) state = {};
  next_ = 0;
  expecting_ = true;
}

/// The gradient of a parameter is complete: into its bucket with it.
void GradientReducer::take(size_t parameter) {
  if (!expecting_) return;
  const torch::NoGradGuard no_grad;
  torch::Tensor& gradient = parameters_[parameter].mutable_grad();
  torch::Tensor sums;  // kEveryProcess: where they will be
  for (const Place place : places_[parameter]) {
    const Bucket& bucket = buckets_[place.bucket];
    const BucketMember& member = bucket.members[place.member];
    BucketState& state = state_[place.bucket];
    if (!state.flat.defined()) {
      state.flat = torch::empty({bucket.slot * group_.size()}, gradient.options());
      zero_padding(bucket, state.flat);
    }
    sums = state.flat.narrow(0, member.offset, member.count);
    sums.copy_(gradient.reshape({-1}).narrow(0, member.begin, member.count));
    ++state.n_ready;
  }
  if (reduce_to_ == ReduceTo::kEveryProcess) {
    gradient = sums.view_as(gradient);
  } else {
    gradient.reset();
  }
  launch_complete_ones();
}

void GradientReducer::launch_complete_ones() {
  while (next_ < buckets_.size() && state_[next_].n_ready == buckets_[next_].members.size()) {
    BucketState& state = state_[next_];
    if (reduce_to_ == ReduceTo::kEveryProcess) {
      state.pending = group_.start_flat_all_reduce(state.flat, wire_);
    } else {
      state.slot = torch::empty({buckets_[next_].slot}, state.flat.options());
      state.pending = group_.start_reduce_scatter(state.flat, state.slot, wire_);
      state.flat.reset();  // the operation holds it as long as it needs it
    }
    ++next_;
  }
}

void GradientReducer::finish() {
  TORCH_CHECK(next_ == buckets_.size(), "GradientReducer: a parameter has no gradient");
  expecting_ = false;
  const auto begin = std::chrono::steady_clock::now();
  for (BucketState& state : state_) {
    state.pending.wait();
  }
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void GradientReducer::release() {
  for (BucketState& state : state_) state = {};
}

}  // namespace tril
