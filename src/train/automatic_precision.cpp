#include "tril/train/automatic_precision.h"

#include <fmt/format.h>

#include "tril/base/cpu.h"

namespace tril {

torch::ScalarType automatic_precision(const ModelConfig& model, torch::Device device) {
  if (!device.is_cpu()) return torch::kBFloat16;
  return cpu_has_bf16_products() && model.n_embed >= kBf16Width ? torch::kBFloat16
                                                                : torch::kFloat32;
}

std::string describe_automatic_precision(torch::Device device) {
  if (!device.is_cpu()) return "bf16";
  if (!cpu_has_bf16_products()) return "fp32 (this processor has no bfloat16 instructions)";
  return fmt::format("bf16 from model.n_embed {} on, fp32 below", kBf16Width);
}

}  // namespace tril
