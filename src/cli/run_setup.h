#pragma once
// From a config to what a training needs: shared by `train` and `bench`.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

#include "tril/config/run_config.h"
#include "tril/tokenizer/tokenizer.h"
#include "tril/train/memory_estimate.h"

namespace tril::cli {

/// The precision of matrix products. `stored`: of the run to go on with, or empty.
c10::ScalarType resolve_precision(Precision wanted,
                                  const std::string& stored,
                                  const ModelConfig& model,
                                  c10::Device device);

/// What a checkpoint's state.json names; CheckpointError for another name.
c10::ScalarType stored_precision(const std::string& name);

/// The vocabulary of the model: the tokenizer's, or a larger one that the config asks for.
/// DataError when the config asks for a smaller one.
void resolve_vocabulary(ModelConfig& model, const Tokenizer& tokenizer);

/// Refuses what cannot fit, before it is allocated: ResourceError. `estimate` is of one of the
/// run's processes on this machine.
void require_memory(const MemoryEstimate& estimate,
                    c10::Device device,
                    int64_t local_processes = 1);

}  // namespace tril::cli
