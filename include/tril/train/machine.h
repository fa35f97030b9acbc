#pragma once
// What this machine can do at best, and what training takes of it.

#include <torch/torch.h>

#include <cstdint>

namespace tril {

/// Floating-point operations per second of a large matrix product of this type, with the threads
/// set now: the best of a few, about 0.1 s. Measured once per machine and setting, and kept in the
/// user's cache (cache_folder()/peak_rate.json); 0 when it cannot be measured.
double peak_matmul_rate(torch::Device device, torch::ScalarType type, int64_t threads);

/// Memory that tensors hold now: of this process in RAM, or allocated on the GPU; 0: unknown.
int64_t memory_in_use_bytes(torch::Device device);

}  // namespace tril
