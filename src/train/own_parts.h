#pragma once
// What lies in this process's slots.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tril/distributed/buckets.h"
#include "tril/optim/parameters.h"

namespace tril {

/// The part of a parameter that lies in this process's slot of a bucket.
struct OwnPart {
  size_t bucket = 0;
  size_t parameter = 0;       ///< number among the trained ones
  std::string name;           ///< the parameter's; with its begin where the member is a run of it
  int64_t begin = 0;          ///< in the parameter
  int64_t slot_offset = 0;    ///< in the slot
  int64_t bucket_offset = 0;  ///< in the bucket
  torch::Tensor values;       ///< a view of the slot, wherever that is; 2-D where the parameter is
};

/// Those of bucket `number`, as views of `slot`, which is process `rank`'s.
std::vector<OwnPart> own_parts_of(const Bucket& bucket,
                                  size_t number,
                                  const std::vector<NamedTensor>& trained,
                                  int64_t rank,
                                  const torch::Tensor& slot);

/// The parts of one bucket become views of `slot`; who holds their tensors sees it too.
void move_parts(std::vector<OwnPart>& parts, size_t bucket, const torch::Tensor& slot);

/// Zeros for all slots of a bucket: (slot * processes).
torch::Tensor zeros_for(const Bucket& bucket,
                        int64_t n_processes,
                        const torch::TensorOptions& options);

/// A tensor that only has a shape: all its values are one zero.
torch::Tensor shape_only(at::IntArrayRef sizes, const torch::TensorOptions& options);

}  // namespace tril
