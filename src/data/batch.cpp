#include "tril/data/batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "tril/base/error.h"

namespace tril {
namespace {

/// A damaged file must not become an index beyond the embedding.
void require_known_ids(const TokenFile& tokens, int64_t start, std::span<const int64_t> ids) {
  const int64_t vocab_size = tokens.header().vocab_size;
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [&](int64_t id) { return id < 0 || id >= vocab_size; });
  if (bad == ids.end()) return;
  throw DataError(
      fmt::format("{} is {}, its vocabulary has {} ids: the file is damaged, or of another "
                  "tokenizer; run `tril prepare` again",
                  tokens.describe_place(start + (bad - ids.begin())),
                  *bad,
                  vocab_size));
}

}  // namespace

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
    const std::span<int64_t> window(row, static_cast<size_t>(width));
    tokens.read(start, window);
    require_known_ids(tokens, start, window);
    row += width;
  }
  if (!device.is_cpu()) ids = ids.to(device, /*non_blocking=*/true);
  return {ids.narrow(1, 0, context_length), ids.narrow(1, 1, context_length)};
}

}  // namespace tril
