#pragma once
// What a run will need, before anything is allocated.

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>

#include "tril/config/run_config.h"

namespace tril {

/// Bytes by purpose. All are known from the config alone.
struct MemoryEstimate {
  double weights = 0;      ///< fp32
  double gradients = 0;    ///< fp32
  double moments = 0;      ///< two per weight, fp32
  double activations = 0;  ///< kept from the forward for the backward pass, one micro-batch
  double loss = 0;         ///< one chunk of logits, its gradient, and the head's gradient
  double update = 0;       ///< what Muon works in, when activations and logits are gone
  double evaluation = 0;   ///< what passes through one block, evaluating; 0 without validation
  double runtime = 0;      ///< the program, LibTorch and its work space

  double peak() const {
    return weights + gradients + moments + std::max(activations + loss, update) + evaluation +
           runtime;
  }
};

/// `precision`: of matrix products. `config.model.vocab_size` must be known. Peak within 15 % of
/// the measured one on the CPU (scripts/bench/memory.py).
MemoryEstimate estimate_memory(const RunConfig& config, c10::ScalarType precision);

}  // namespace tril
