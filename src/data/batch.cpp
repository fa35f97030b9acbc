#include "tril/data/batch.h"

namespace tril {

Batch make_batch(const TokenFile& tokens,
                 std::span<const int64_t> starts,
                 int64_t context_length,
                 torch::Device device) {
  const auto n_windows = static_cast<int64_t>(starts.size());
  const int64_t width = context_length + 1;
  const auto options = torch::TensorOptions().dtype(torch::kInt64).pinned_memory(!device.is_cpu());
  torch::Tensor ids = torch::empty({n_windows, width}, options);
  auto* row = ids.mutable_data_ptr<int64_t>();
  for (const int64_t start : starts) {
    tokens.read(start, {row, static_cast<size_t>(width)});
    row += width;
  }
  if (!device.is_cpu()) ids = ids.to(device, /*non_blocking=*/true);
  return {ids.narrow(1, 0, context_length), ids.narrow(1, 1, context_length)};
}

}  // namespace tril
