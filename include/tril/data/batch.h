#pragma once
// Windows of a token file as tensors.

#include <torch/torch.h>

#include <span>

#include "tril/base/token_file.h"

namespace tril {

/// B windows of T+1 ids, as next-token examples.
struct Batch {
  torch::Tensor inputs;   ///< (B, T) int64: ids [0, T) of each window
  torch::Tensor targets;  ///< (B, T) int64: ids [1, T]
};

/// Reads the windows that begin at `starts`; each must lie inside the file. Inputs and targets are
/// views of one (B, T+1) tensor on `device`. DataError for an id outside the file's vocabulary.
Batch make_batch(const TokenFile& tokens,
                 std::span<const int64_t> starts,
                 int64_t context_length,
                 torch::Device device);

}  // namespace tril
