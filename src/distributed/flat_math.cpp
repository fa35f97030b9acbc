#include "flat_math.h"

namespace tril {
namespace {

template <typename T>
void sum_slots_of(const torch::Tensor& received, torch::Tensor& slot) {
  const int64_t n = slot.numel();
  const auto* in = received.const_data_ptr<T>();
  auto* out = slot.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
  for (int64_t first = n; first < received.numel(); first += n) {
    const T* more = in + first;
    for (int64_t i = 0; i < n; ++i) out[i] += static_cast<float>(more[i]);
  }
}

template <typename From, typename To>
void convert_of(const torch::Tensor& from, torch::Tensor& to) {
  const auto* in = from.const_data_ptr<From>();
  auto* out = to.mutable_data_ptr<To>();
  for (int64_t i = 0; i < from.numel(); ++i) out[i] = static_cast<To>(in[i]);
}

}  // namespace

void sum_slots(const torch::Tensor& received, torch::Tensor& slot) {
  if (received.scalar_type() == torch::kBFloat16) {
    sum_slots_of<at::BFloat16>(received, slot);
  } else {
    sum_slots_of<float>(received, slot);
  }
}

void convert(const torch::Tensor& from, torch::Tensor& to) {
  if (from.scalar_type() == torch::kBFloat16) {
    convert_of<at::BFloat16, float>(from, to);
  } else {
    convert_of<float, at::BFloat16>(from, to);
  }
}

}  // namespace tril
