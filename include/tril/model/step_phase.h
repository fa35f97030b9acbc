#pragma once
// The parts of a training step, marked where they happen: `tril bench` times them, and a trace
// shows them by these names. Without an observer a mark costs some nanoseconds.

#include <ATen/record_function.h>

#include <string_view>

namespace tril {

inline constexpr const char* kPhaseData = "tril::data";            ///< windows read and moved
inline constexpr const char* kPhaseForward = "tril::forward";      ///< embedding to final norm
inline constexpr const char* kPhaseAttention = "tril::attention";  ///< q, k, v to their mixture
inline constexpr const char* kPhaseLoss = "tril::loss";            ///< head and cross-entropy
inline constexpr const char* kPhaseBackward = "tril::backward";
inline constexpr const char* kPhaseOptimizer = "tril::optimizer";  ///< clipping included

/// Marks the scope it lives in. Marks may nest; the inner one counts.
class StepPhase {
 public:
  explicit StepPhase(const char* name) : record_(at::RecordScope::USER_SCOPE) {
    if (record_.isActive()) record_.before(std::string_view(name));
  }

 private:
  at::RecordFunction record_;
};

}  // namespace tril
