#pragma once
// Sums and roundings of flat gradients on the CPU, on the calling thread alone: they run beside the
// backward pass, which has the other threads.

#include <torch/torch.h>

namespace tril {

/// slot[i] = the sum over r of received[r * slot.numel() + i], in the order of r, in fp32.
/// `received`: float or bfloat16.
void sum_slots(const torch::Tensor& received, torch::Tensor& slot);

/// Element by element; both of one size: fp32 to bfloat16, or back.
void convert(const torch::Tensor& from, torch::Tensor& to);

}  // namespace tril
