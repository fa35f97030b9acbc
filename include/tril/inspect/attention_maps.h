#pragma once
// What each head of a model reads from where, computed head by head by the plain `Head` modules.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tril/model/gpt.h"

namespace tril {

/// Which heads to keep; all blocks are always computed.
struct HeadSelection {
  std::optional<int64_t> block = {};  ///< 0 … L-1
  std::optional<int64_t> head = {};   ///< 0 … H-1
};

/// One head's weights: row i (the position that looks) says how much it reads from each j <= i.
/// Rows sum to 1; above the diagonal, where the mask is, there are zeros.
struct HeadMap {
  int64_t block = 0;
  int64_t head = 0;
  std::vector<float> weights;  ///< (T, T), row by row
};

struct AttentionMaps {
  int64_t n_tokens = 0;  ///< T
  std::vector<HeadMap> heads;
  /// The largest difference of any block's attention output between the heads one by one (where
  /// the maps come from) and the fused path (which training and generation use), over the largest
  /// output.
  double path_difference = 0;
};

/// More than this between the two paths is an error: hundreds of times fp32's round-off.
inline constexpr double kPathTolerance = 1e-4;

/// Bytes that the maps of a selection take.
int64_t attention_map_bytes(const ModelConfig& config,
                            const HeadSelection& selection,
                            int64_t n_tokens);

/// `ids`: 1 to context_length ids. Dropout is off meanwhile. ConfigError for a head that is not
/// there; CheckpointError when a weight is not finite or the paths differ.
AttentionMaps attention_maps(GPT& model,
                             std::span<const int64_t> ids,
                             const HeadSelection& selection = {});

}  // namespace tril
