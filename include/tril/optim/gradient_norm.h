#pragma once
// What an update needs besides gradients, without asking the device for a number: the learning rate
// and the length of the whole gradient.

#include <torch/torch.h>

#include <vector>

namespace tril {

/// A learning rate, or a factor on one, where a step can read it without asking the CPU: 0-dim, in
/// double on the CPU, and in float32, which LibTorch's fused kernels want, on a GPU.
torch::Tensor rate_tensor(double rate, torch::Device device);

/// What clipping and the non-finite check need; all are 0-dim float tensors on the gradients'
/// device.
struct GradientNorm {
  torch::Tensor norm;       ///< L2 norm over all gradients, without the loss scale
  torch::Tensor divisor;    ///< max(1, norm / max_norm), times the loss scale: divide by it to clip
  torch::Tensor found_inf;  ///< 1 when the norm is not finite, else 0
};

/// `max_norm` 0 means: do not clip. `loss_scale`: the factor that the gradients carry (LossScaler);
/// undefined: none. The gradients are not changed.
GradientNorm gradient_norm(const std::vector<torch::Tensor>& gradients,
                           double max_norm,
                           const torch::Tensor& loss_scale = {});

/// The same from a norm that is known (0-dim): of gradients that lie in several processes.
GradientNorm gradient_norm_of(const torch::Tensor& norm,
                              double max_norm,
                              const torch::Tensor& loss_scale = {});

}  // namespace tril
