#pragma once
// Rules over parameter names for training on from other weights: which stay frozen, and how fast
// each block learns.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/optim/parameters.h"

namespace tril {

/// "a, b.*" -> "a", "b.*"; spaces around commas and empty parts do not count.
std::vector<std::string> split_patterns(std::string_view text);

/// `*` stands for any text (also none, also dots), `?` for one character.
bool matches_pattern(std::string_view name, std::string_view pattern);

/// Those whose name no pattern of `frozen` (optimizer.frozen) matches; the others stop asking for a
/// gradient. Throws ConfigError for a pattern that matches nothing, and when nothing is left.
std::vector<NamedTensor> without_frozen(const std::vector<NamedTensor>& parameters,
                                        std::string_view frozen);

/// The number in "blocks.12.attn..."; nothing for a parameter outside the blocks.
std::optional<int64_t> block_of(std::string_view name);

/// Learning rates that fall from the last block to the first (optimizer.layer_decay).
class LayerRates {
 public:
  /// The number of blocks L is read from the names.
  LayerRates(const std::vector<NamedTensor>& parameters, double decay);

  /// The factor of a parameter: decay^(L - 1 - i) in block i, decay^L for embeddings, 1 for the
  /// rest (final norm, head).
  double factor(std::string_view name) const;

 private:
  double decay_;
  int64_t n_blocks_ = 0;
};

}  // namespace tril
