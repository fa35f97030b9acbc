#include "tril/distributed/process_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/fingerprint.h"

namespace tril {

std::string ProcessGroup::broadcast_text(const std::string& text) {
  torch::Tensor size = torch::full({1}, static_cast<int64_t>(text.size()), torch::kInt64);
  broadcast(size);
  torch::Tensor bytes = torch::zeros({size.item<int64_t>()}, torch::kUInt8);
  if (bytes.numel() == 0) return {};
  if (is_first()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  broadcast(bytes);
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

ProcessGroup::Traffic ProcessGroup::take_traffic() {
  return {static_cast<double>(busy_nanoseconds_.exchange(0)) * 1e-9, bytes_sent_.exchange(0)};
}

void ProcessGroup::count_traffic(int64_t nanoseconds, int64_t bytes) {
  busy_nanoseconds_ += nanoseconds;
  bytes_sent_ += bytes;
}

void require_equal_everywhere(ProcessGroup& group,
                              const std::vector<torch::Tensor>& tensors,
                              const std::string& what) {
  FingerprintStream hash;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor values = tensor.detach().to(torch::kCPU).contiguous();
    hash.update(values.const_data_ptr(), static_cast<size_t>(values.nbytes()));
  }
  constexpr size_t kDigits = 15;  // what fits into a positive word
  const auto word = static_cast<int64_t>(std::stoull(hash.hex().substr(0, kDigits), nullptr, 16));
  torch::Tensor words = torch::zeros({group.size()}, torch::kInt64);
  words[group.rank()] = word;
  group.all_reduce(words, Combine::kSum);
  std::vector<int64_t> different;
  for (int64_t rank = 1; rank < group.size(); ++rank) {
    if (words[rank].item<int64_t>() != words[0].item<int64_t>()) different.push_back(rank);
  }
  if (different.empty()) return;
  throw PeerError(
      fmt::format("{} differ between processes: rank {} from rank 0. Their machines or programs "
                  "compute differently, or a memory is faulty. The last checkpoint was written "
                  "before this was seen: check it, then go on with --resume=auto",
                  what,
                  fmt::join(different, ", ")));
}

}  // namespace tril
