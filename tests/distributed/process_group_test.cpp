#include "tril/distributed/process_group.h"

#include <atomic>

#include "distributed/ranks.h"
#include "support/catch.h"
#include "support/errors.h"
#include "tril/base/error.h"
#include "tril/distributed/gradient_reducer.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// Different on every rank, with sums that fp32 rounds.
torch::Tensor numbers(int64_t rank, int64_t n) {
  return (torch::arange(n, torch::kFloat64) * 0.37 + 1.1 * static_cast<double>(rank + 1))
      .sin()
      .to(torch::kFloat32);
}

}  // namespace

TEST_CASE("small tensors are summed, maximised and handed out", "[distributed]") {
  for_each_rank(3, [](ProcessGroup& group) {
    torch::Tensor sum = torch::full({2}, static_cast<double>(group.rank() + 1));
    group.all_reduce(sum, Combine::kSum);
    TRIL_MUST(sum.equal(torch::full({2}, 6.0)));
    torch::Tensor most = torch::full({1}, group.rank(), torch::kInt64);
    group.all_reduce(most, Combine::kMax);
    TRIL_MUST(most.item<int64_t>() == 2);
    torch::Tensor first = torch::full({3}, static_cast<double>(10 + group.rank()));
    group.broadcast(first);
    TRIL_MUST(first.equal(torch::full({3}, 10.0)));
    TRIL_MUST(group.broadcast_text(group.is_first() ? "a text" : "") == "a text");
    TRIL_MUST(group.broadcast_text("").empty());
  });
}

TEST_CASE("flat sums are formed in the order of ranks, whole or in slots", "[distributed]") {
  for (const int64_t n : {2, 3, 4}) {
    const int64_t size = 32 * n;
    torch::Tensor expected = numbers(0, size);
    for (int64_t rank = 1; rank < n; ++rank) expected = expected + numbers(rank, size);
    for_each_rank(n, [&](ProcessGroup& group) {
      torch::Tensor all = numbers(group.rank(), size);
      group.start_flat_all_reduce(all, torch::kFloat32).wait();
      TRIL_MUST(all.equal(expected));

      torch::Tensor slot = torch::zeros({32});
      group.start_reduce_scatter(numbers(group.rank(), size), slot, torch::kFloat32).wait();
      TRIL_MUST(slot.equal(expected.narrow(0, 32 * group.rank(), 32)));

      torch::Tensor gathered = torch::zeros({size});
      gathered.narrow(0, 32 * group.rank(), 32).copy_(slot);
      group.start_all_gather(gathered).wait();
      TRIL_MUST(gathered.equal(expected));
      TRIL_MUST(group.take_traffic().bytes == 4 * 32 * 4 * (n - 1));
    });
  }
}

TEST_CASE("gradients in bfloat16 are summed in fp32 and equal on all ranks", "[distributed]") {
  const int64_t n = 3, size = 48;
  torch::Tensor sum = torch::zeros({size});
  for (int64_t rank = 0; rank < n; ++rank) {
    sum = sum + numbers(rank, size).to(torch::kBFloat16).to(torch::kFloat32);
  }
  const torch::Tensor expected = sum.to(torch::kBFloat16).to(torch::kFloat32);
  for_each_rank(n, [&](ProcessGroup& group) {
    torch::Tensor all = numbers(group.rank(), size);
    group.start_flat_all_reduce(all, torch::kBFloat16).wait();
    TRIL_MUST(all.equal(expected));
    TRIL_MUST(group.take_traffic().bytes == 2 * 2 * 16 * (n - 1));
    torch::Tensor slot = torch::zeros({16});
    group.start_reduce_scatter(numbers(group.rank(), size), slot, torch::kBFloat16).wait();
    TRIL_MUST(slot.equal(sum.narrow(0, 16 * group.rank(), 16)));
  });
}

TEST_CASE("weights that differ on one rank are found, and the rank is named", "[distributed]") {
  for_each_rank(3, [](ProcessGroup& group) {
    torch::Tensor weights = torch::ones({5});
    require_equal_everywhere(group, {weights}, "the weights");
    if (group.rank() == 2) weights[4] = 1.0000001;
    const std::string message =
        message_of<PeerError>([&] { require_equal_everywhere(group, {weights}, "the weights"); });
    TRIL_MUST(message.find("the weights differ") != std::string::npos);
    TRIL_MUST(message.find("rank 2") != std::string::npos);
  });
}

TEST_CASE("a rank that has gone ends the others' operations at once", "[distributed]") {
  std::atomic<int> n_errors = 0;
  for_each_rank(3, [&](ProcessGroup& group) {
    if (group.rank() == 1) return;
    torch::Tensor flat = torch::zeros({48}), sum = torch::zeros({1});
    if (message_of<PeerError>([&] { group.start_flat_all_reduce(flat, torch::kFloat32).wait(); }) !=
        "no error") {
      ++n_errors;
    }
    if (message_of<PeerError>([&] { group.all_reduce(sum, Combine::kSum); }) != "no error") {
      ++n_errors;
    }
  });
  CHECK(n_errors == 4);
}

TEST_CASE("gradients are those of all ranks' windows together", "[distributed]") {
  // y = sum over rows of (x W + b): each rank has rows of its own.
  const auto parameters = [] {
    torch::manual_seed(3);
    return std::vector<torch::Tensor>{torch::randn({5, 3}).requires_grad_(true),
                                      torch::randn({3}).requires_grad_(true)};
  };
  const auto loss_of = [](const std::vector<torch::Tensor>& p, int64_t rank) {
    const torch::Tensor x = numbers(rank, 20).view({4, 5});
    return (torch::mm(x, p[0]) + p[1]).square().sum();
  };
  const auto alone = parameters();
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (int micro_step = 0; micro_step < 2; ++micro_step) loss_of(alone, rank).backward();
  }
  for_each_rank(3, [&](ProcessGroup& group) {
    std::vector<torch::Tensor> p{alone[0].detach().clone().requires_grad_(true),
                                 alone[1].detach().clone().requires_grad_(true)};
    const auto buckets = plan_buckets({15, 3}, {false, false}, group.size(), 3);
    GradientReducer reducer(group, p, buckets, ReduceTo::kEveryProcess, torch::kFloat32);
    for (int step = 0; step < 2; ++step) {
      for (auto& parameter : p) parameter.mutable_grad().reset();
      loss_of(p, group.rank()).backward();  // only accumulates: nothing is sent
      TRIL_MUST(group.take_traffic().bytes == 0);
      reducer.expect_gradients();
      loss_of(p, group.rank()).backward();
      reducer.finish();
      TRIL_MUST(group.take_traffic().bytes > 0);
      for (size_t i = 0; i < p.size(); ++i) {
        TRIL_MUST(p[i].grad().allclose(alone[i].grad(), /*rtol=*/1e-5, /*atol=*/1e-5));
      }
    }
  });
}
