// Memory of large tensors is kept for the next one of the size, within a bound.

#include "tril/model/cpu_allocator.h"

#include <torch/torch.h>

#include "support/catch.h"

namespace tril {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST_CASE("a large tensor's memory serves the next one of its size", "[model]") {
  use_caching_cpu_allocator();
  const auto bytes = [](int64_t n) { return torch::empty({n}, torch::kUInt8); };
  torch::Tensor first = bytes(9 * kMegabyte);
  CHECK(reinterpret_cast<uintptr_t>(first.data_ptr()) % 64 == 0);
  first.fill_(7);
  const void* address = first.data_ptr();
  const torch::Tensor other = bytes(9 * kMegabyte);
  CHECK(other.data_ptr() != address);
  first.reset();
  const torch::Tensor again = bytes(9 * kMegabyte - 1000);
  CHECK(again.data_ptr() == address);
  // Small, empty and copied tensors are as ever.
  CHECK(bytes(0).numel() == 0);
  CHECK(torch::equal(bytes(100).fill_(3), torch::full({100}, 3, torch::kUInt8)));
  CHECK(torch::equal(again.clone(), again));
}

TEST_CASE("memory that cannot be had is an error, not a crash", "[model]") {
  use_caching_cpu_allocator();
  CHECK_THROWS_AS(torch::empty({int64_t{1} << 50}, torch::kUInt8), c10::OutOfMemoryError);
  CHECK(torch::ones({kMegabyte}).sum().item<double>() == kMegabyte);
}

}  // namespace
}  // namespace tril
