#pragma once
// Mixed precision for a scope: matrix multiplications run in a lower precision, weights stay fp32.

#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace tril {

/// While alive, autocast is on for `device` with `dtype`; the state before comes back at the end.
/// kFloat32 means: off. LibTorch has no such guard for C++.
class AutocastGuard {
 public:
  AutocastGuard(c10::DeviceType device, c10::ScalarType dtype)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        previous_dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, dtype != c10::kFloat);
    if (dtype != c10::kFloat) at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  ~AutocastGuard() {
    // The cache of cast weights lives as long as the outermost scope: once per micro-step.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, previous_dtype_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  c10::ScalarType previous_dtype_;
};

/// "fp32", "bf16" or "fp16": how configs, checkpoints and reports name a precision.
inline std::string precision_name(c10::ScalarType precision) {
  return precision == c10::kBFloat16 ? "bf16" : precision == c10::kHalf ? "fp16" : "fp32";
}

/// The other way; nothing for another name.
inline std::optional<c10::ScalarType> precision_named(std::string_view name) {
  if (name == "fp32") return c10::kFloat;
  if (name == "bf16") return c10::kBFloat16;
  if (name == "fp16") return c10::kHalf;
  return std::nullopt;
}

/// What autocast makes of x: the type that its matrix products read.
inline c10::ScalarType product_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

}  // namespace tril
