#include "tril/model/init.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <string_view>
#include <unordered_set>

#include "tril/base/counter_random.h"

namespace tril {
namespace {

uint64_t hash_name(std::string_view name) {  // FNV-1a
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  for (const auto ending : endings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace

void initialize(GPT& model, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const double residual_std = 0.02 / std::sqrt(2.0 * static_cast<double>(model->config().n_blocks));
  std::unordered_set<const void*> seen;  // keys and values that several heads share: the first name
  for (const auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    const torch::Tensor& tensor = item.value();
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    if (name.ends_with("bias")) {
      tensor.zero_();
    } else if (ends_with_any(name, {"ln1.weight", "ln2.weight", "final_norm.weight"})) {
      tensor.fill_(1.0);
    } else {
      const bool to_residual = ends_with_any(name, {"attn.proj.weight", "ffn.down.weight"});
      auto generator = at::make_generator<at::CPUGeneratorImpl>(
          random_bits(seed, RandomStream::kInit, hash_name(name)));
      torch::Tensor values = torch::empty(tensor.sizes(), torch::kFloat32);
      values.normal_(0.0, to_residual ? residual_std : 0.02, generator);
      tensor.copy_(values);
    }
  }
}

}  // namespace tril
