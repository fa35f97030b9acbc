#include "own_parts.h"

#include <fmt/format.h>

namespace tril {

std::vector<OwnPart> own_parts_of(const Bucket& bucket,
                                  size_t number,
                                  const std::vector<NamedTensor>& trained,
                                  int64_t rank,
                                  const torch::Tensor& slot) {
  std::vector<OwnPart> result;
  for (const SlotPart& part : parts_in_slot(bucket, rank)) {
    const BucketMember& member = bucket.members[part.member];
    const auto& [name, parameter] = trained[member.parameter];
    torch::Tensor values = slot.narrow(0, part.slot_offset, part.count);
    // The rules ask for the number of dimensions: a part of a matrix is a matrix of one row.
    if (part.count == parameter.numel()) {
      values = values.view(parameter.sizes());
    } else if (parameter.dim() >= 2) {
      values = values.unsqueeze(0);
    }
    const bool is_cut = member.count != parameter.numel();
    result.push_back({.bucket = number,
                      .parameter = member.parameter,
                      .name = is_cut ? fmt::format("{}[{}]", name, member.begin) : name,
                      .begin = member.begin + part.begin,
                      .slot_offset = part.slot_offset,
                      .bucket_offset = part.bucket_offset,
                      .values = values});
  }
  return result;
}

void move_parts(std::vector<OwnPart>& parts, size_t bucket, const torch::Tensor& slot) {
  for (OwnPart& part : parts) {
    if (part.bucket != bucket) continue;
    part.values.set_data(
        slot.narrow(0, part.slot_offset, part.values.numel()).view(part.values.sizes()));
  }
}

torch::Tensor zeros_for(const Bucket& bucket,
                        int64_t n_processes,
                        const torch::TensorOptions& options) {
  return torch::zeros({bucket.slot * n_processes}, options);
}

torch::Tensor shape_only(at::IntArrayRef sizes, const torch::TensorOptions& options) {
  return torch::zeros({1}, options).expand(sizes);
}

}  // namespace tril
