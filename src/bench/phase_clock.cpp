#include "tril/bench/phase_clock.h"

#include <ATen/DeviceAccelerator.h>

#include <memory>
#include <string_view>

#include "tril/model/step_phase.h"

namespace tril {
namespace {

constexpr int kOther = 6;
constexpr int kAttention = 2;
constexpr int kNotAPart = -1;

/// The clock that the callbacks write to: they are plain functions.
PhaseClock* active_clock = nullptr;

int part_of(const at::RecordFunction& record) {
  static constexpr const char* kMarks[kOther] = {
      kPhaseData, kPhaseForward, kPhaseAttention, kPhaseLoss, kPhaseBackward, kPhaseOptimizer};
  const std::string_view name = record.name();
  for (int part = 0; part < kOther; ++part) {
    if (name == kMarks[part]) return part;
  }
  // Backward nodes carry the name of what they differentiate.
  const bool is_attention = name.find("PackedAttention") != std::string_view::npos ||
                            name.find("ScaledDotProduct") != std::string_view::npos;
  return is_attention ? kAttention : kNotAPart;
}

/// Tells the end callback that its beginning was counted.
struct Counted : at::ObserverContext {};

}  // namespace

struct PhaseClock::Callbacks {
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& record) {
    const int part = part_of(record);
    if (active_clock == nullptr || part == kNotAPart) return nullptr;
    active_clock->begin(part);
    return std::make_unique<Counted>();
  }
  static void end(const at::RecordFunction& /*record*/, at::ObserverContext* counted) {
    if (counted != nullptr && active_clock != nullptr) active_clock->end();
  }
};

PhaseClock::PhaseClock(torch::Device device) : device_(device), seconds_(kOther + 1, 0.0) {
  TORCH_CHECK(active_clock == nullptr, "PhaseClock: one at a time");
  active_clock = this;
  wait_for_device(device_);
  last_ = Clock::now();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Callbacks::start, &Callbacks::end)
          .scopes({at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION}));
}

PhaseClock::~PhaseClock() {
  at::removeCallback(handle_);
  active_clock = nullptr;
}

std::map<std::string, double> PhaseClock::seconds() {
  count();
  std::map<std::string, double> result;
  for (size_t part = 0; part < seconds_.size(); ++part) {
    result[phase_names()[part]] = seconds_[part];
  }
  return result;
}

void PhaseClock::begin(int part) {
  count();
  open_.push_back(part);
}

void PhaseClock::end() {
  count();
  open_.pop_back();
}

/// Gives the time since the last border to the innermost open part.
void PhaseClock::count() {
  wait_for_device(device_);
  const auto now = Clock::now();
  const int part = open_.empty() ? kOther : open_.back();
  seconds_[static_cast<size_t>(part)] += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names = {
      "data", "forward", "attention", "loss", "backward", "optimizer", "other"};
  return names;
}

void wait_for_device(torch::Device device) {
  if (device.is_cpu()) return;
  at::accelerator::synchronizeDevice(device.has_index() ? device.index() : c10::DeviceIndex{0});
}

}  // namespace tril
