#include "run_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <torch/torch.h>

#include "device.h"
#include "tril/base/error.h"
#include "tril/model/autocast.h"
#include "tril/train/automatic_precision.h"
#include "tril/train/progress.h"

namespace tril::cli {

torch::ScalarType resolve_precision(Precision wanted,
                                    const std::string& stored,
                                    const ModelConfig& model,
                                    c10::Device device) {
  const bool has_bf16 = multiplies_bf16(device);
  const auto precision = wanted != Precision::kAuto ? precision_named(enum_name(wanted)).value()
                         : stored.empty()           ? automatic_precision(model, device, has_bf16)
                                                    : stored_precision(stored);
  require_precision(precision, device, has_bf16);
  if (precision == torch::kFloat16 && device.is_cpu()) {
    spdlog::warn(
        "fp16 is meant for GPUs: most CPUs have no instructions for it and take tens of times as "
        "long as in fp32 or bf16 (train.precision)");
  }
  return precision;
}

torch::ScalarType stored_precision(const std::string& name) {
  const auto precision = precision_named(name);
  if (precision) return *precision;
  throw CheckpointError(
      fmt::format("state.json: 'precision': '{}': expected fp32, bf16 or fp16", name));
}

void resolve_vocabulary(ModelConfig& model, const Tokenizer& tokenizer) {
  if (model.vocab_size == 0) model.vocab_size = tokenizer.vocab_size();
  if (model.vocab_size < tokenizer.vocab_size()) {
    throw DataError(fmt::format(
        "max token id {} >= model.vocab_size {}: the tokenizer has {} ids. Use 0 (the tokenizer's "
        "size) or at least {}",
        tokenizer.vocab_size() - 1,
        model.vocab_size,
        tokenizer.vocab_size(),
        tokenizer.vocab_size()));
  }
}

void require_memory(const MemoryEstimate& estimate, c10::Device device, int64_t local_processes) {
  const auto available = static_cast<double>(available_memory_bytes());
  const double needed = estimate.peak() * static_cast<double>(local_processes);
  if (!device.is_cpu() || available <= 0 || needed <= available) return;
  throw ResourceError(fmt::format(
      "this run needs about {} of memory{} (weights {}, gradients {}, moments {}, activations {}, "
      "loss "
      "{}), {} are available. Try a smaller train.batch_size (with train.accumulation), "
      "model.context_length or model",
      format_bytes(needed),
      local_processes > 1 ? fmt::format(" for {} processes here, each", local_processes) : "",
      format_bytes(estimate.weights),
      format_bytes(estimate.gradients),
      format_bytes(estimate.moments),
      format_bytes(estimate.activations),
      format_bytes(estimate.loss),
      format_bytes(available)));
}

}  // namespace tril::cli
