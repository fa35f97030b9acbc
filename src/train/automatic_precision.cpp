#include "tril/train/automatic_precision.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include "tril/base/cpu.h"
#include "tril/base/error.h"

namespace tril {

bool multiplies_bf16(torch::Device device) {
  if (device.is_cpu()) return cpu_has_bf16_products();
  const c10::DeviceGuard on_device(device);
  // The one question about a GPU's generation that needs no CUDA header: is it 8.0 or later?
  return at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
}

torch::ScalarType automatic_precision(const ModelConfig& model,
                                      torch::Device device,
                                      bool has_bf16) {
  if (!device.is_cpu()) return has_bf16 ? torch::kBFloat16 : torch::kFloat16;
  return has_bf16 && model.n_embed >= kBf16Width ? torch::kBFloat16 : torch::kFloat32;
}

void require_precision(torch::ScalarType precision, torch::Device device, bool has_bf16) {
  if (precision != torch::kBFloat16 || device.is_cpu() || has_bf16) return;
  throw ConfigError(
      fmt::format("train.precision bf16: {} has no bfloat16 instructions (they came with compute "
                  "capability 8.0). Use fp16, fp32, or auto, which takes fp16 there",
                  device.str()));
}

std::string describe_automatic_precision(torch::Device device) {
  const bool has_bf16 = multiplies_bf16(device);
  if (!device.is_cpu()) return has_bf16 ? "bf16" : "fp16 (this GPU has no bfloat16 instructions)";
  if (!has_bf16) return "fp32 (this processor has no bfloat16 instructions)";
  return fmt::format("bf16 from model.n_embed {} on, fp32 below", kBf16Width);
}

}  // namespace tril
