#pragma once
// Keys and values of the positions already read, kept so that one more token costs one more row.

#include <cstdint>
#include <vector>

#include <torch/torch.h>

namespace tril {

/// One block's share: the fused projection, packed once, and the cached keys and values.
struct BlockCache {
  torch::Tensor qkv_weight;  ///< (3C, C)
  torch::Tensor qkv_bias;    ///< (3C) or undefined
  torch::Tensor keys;        ///< (B, H, capacity + 1, D): shifted heads write one further
  torch::Tensor values;      ///< (B, H, capacity, D)
};

/// Made by GPT::make_cache. Valid as long as the weights do not change.
struct KvCache {
  std::vector<BlockCache> blocks;
  int64_t capacity = 0;  ///< positions that fit: at most context_length
  int64_t length = 0;    ///< positions held

  /// Forgets all positions; keeps memory and packed weights.
  void clear() { length = 0; }
};

}  // namespace tril
