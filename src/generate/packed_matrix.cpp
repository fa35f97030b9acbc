#include "tril/generate/engine.h"

namespace tril {

torch::Tensor PackedMatrix::unpacked() const {
  const torch::Tensor wide = values.to(torch::kFloat32);
  return format == WeightFormat::kInt8 ? wide * scales.unsqueeze(1) : wide;
}

PackedMatrix pack_matrix(const torch::Tensor& weight,
                         const torch::Tensor& bias,
                         WeightFormat format) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor w = weight.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  PackedMatrix packed;
  packed.format = format;
  if (bias.defined()) packed.bias = bias.detach().to(torch::kCPU, torch::kFloat32).contiguous();
  switch (format) {
    case WeightFormat::kFp32:
      packed.values = w;
      break;
    case WeightFormat::kBf16:
      packed.values = w.to(torch::kBFloat16);
      break;
    case WeightFormat::kInt8: {
      // The largest magnitude of a row becomes 127; a row of zeros keeps a scale of 1.
      const torch::Tensor largest = w.abs().amax(/*dim=*/1);
      packed.scales = torch::where(largest > 0, largest / 127.0, torch::ones_like(largest));
      packed.values = (w / packed.scales.unsqueeze(1)).round_().clamp_(-127, 127).to(torch::kInt8);
      break;
    }
  }
  return packed;
}

void round_weights(GPT& model, WeightFormat format) {
  if (format == WeightFormat::kFp32) return;
  const torch::NoGradGuard no_grad;
  const auto round = [&](const torch::Tensor& weight) {
    weight.detach().copy_(pack_matrix(weight, {}, format).unpacked());
  };
  for (const auto& item : model->named_parameters()) {
    const bool is_table =
        item.key() == "position_embedding.weight" ||
        (item.key() == "token_embedding.weight" && !model->config().tie_embeddings);
    if (item.value().dim() == 2 && !is_table) round(item.value());
  }
}

}  // namespace tril
