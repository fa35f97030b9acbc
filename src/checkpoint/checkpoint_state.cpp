#include "tril/checkpoint/checkpoint_state.h"

#include <fmt/format.h>

#include <cmath>

#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr size_t kMaxTextBytes = 1000;

/// Each field of state.json once: writing and reading both use this list. An optional part is
/// written only where it says something, so that files without it stay as they were.
enum class Part { kAlways, kOptional };

template <class State, class Visitor>
void visit_state(State& s, Visitor&& visit) {
  visit("step", s.step, Part::kAlways);
  visit("windows_seen", s.windows_seen, Part::kAlways);
  visit("tokens_seen", s.tokens_seen, Part::kAlways);
  visit("evaluated_step", s.evaluated_step, Part::kAlways);
  visit("validation_loss", s.validation_loss, Part::kAlways);
  visit("best_validation_loss", s.best_validation_loss, Part::kAlways);
  visit("best_step", s.best_step, Part::kAlways);
  visit("precision", s.precision, Part::kAlways);
  visit("attention", s.attention, Part::kAlways);
  visit("threads", s.threads, Part::kAlways);
  visit("train_fingerprint", s.train_fingerprint, Part::kAlways);
  visit("validation_fingerprint", s.validation_fingerprint, Part::kAlways);
  visit("loss_mean", s.loss_mean, Part::kOptional);
  visit("loss_variance", s.loss_variance, Part::kOptional);
  visit("loss_count", s.loss_count, Part::kOptional);
  visit("bad_streak", s.bad_streak, Part::kOptional);
  visit("processes", s.processes, Part::kOptional);
  visit("loss_scale", s.loss_scale, Part::kOptional);
  visit("loss_scale_steps", s.loss_scale_steps, Part::kOptional);
}

/// The value that means "nothing to say".
template <class Value>
bool is_empty(const Value& value) {
  return value == Value{};
}

void read_value(const Json& json, int64_t& value) {
  if (!json.is_number_integer()) throw CheckpointError("expected an integer");
  // 2^62: sums of two such counts cannot overflow.
  constexpr int64_t kMax = int64_t{1} << 62;
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(kMax)) {
    throw CheckpointError("expected a value of at most 2^62");
  }
  value = json.get<int64_t>();
  if (value < 0) throw CheckpointError("expected a value >= 0");
}

void read_value(const Json& json, std::string& value) {
  if (!json.is_string()) throw CheckpointError("expected a string");
  value = json.get<std::string>();
  if (value.size() > kMaxTextBytes) {
    throw CheckpointError(fmt::format("expected at most {} bytes", kMaxTextBytes));
  }
}

void read_value(const Json& json, std::optional<double>& value) {
  if (json.is_null()) {
    value.reset();
  } else if (json.is_number()) {
    value = json.get<double>();
  } else {
    throw CheckpointError("expected a number or null");
  }
}

}  // namespace

OrderedJson state_to_json(const CheckpointState& state) {
  OrderedJson json;
  json["format_version"] = kCheckpointFormatVersion;
  visit_state(state, [&](const char* key, const auto& value, Part part) {
    if (part == Part::kOptional && is_empty(value)) return;
    if constexpr (requires { value.has_value(); }) {
      if (value.has_value())
        json[key] = *value;
      else
        json[key] = nullptr;
    } else {
      json[key] = value;
    }
  });
  return json;
}

void check_format_version(const Json& json, const std::filesystem::path& path) {
  if (!json.is_object() || !json.contains("format_version") ||
      !json["format_version"].is_number_integer()) {
    throw CheckpointError(fmt::format(
        "{}: no format_version: this is not a file of a tril checkpoint", path.string()));
  }
  if (json["format_version"] != kCheckpointFormatVersion) {
    throw CheckpointError(fmt::format("{}: format_version {} is not {}, the one this tril reads",
                                      path.string(),
                                      json["format_version"].dump(),
                                      kCheckpointFormatVersion));
  }
}

CheckpointState state_from_json(const Json& json, const std::filesystem::path& path) {
  check_format_version(json, path);
  CheckpointState state;
  visit_state(state, [&](const char* key, auto& value, Part part) {
    if (!json.contains(key)) {
      if (part == Part::kOptional) return;
      throw CheckpointError(fmt::format("{}: '{}' is missing", path.string(), key));
    }
    try {
      read_value(json[key], value);
    } catch (const CheckpointError& error) {
      throw CheckpointError(fmt::format("{}: '{}': {}", path.string(), key, error.what()));
    }
  });
  return state;
}

}  // namespace tril
