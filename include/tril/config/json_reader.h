#pragma once
// One value of a config: JSON in, typed and checked value out. Errors name the place, the value
// found and what is allowed.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/config/data_config.h"
#include "tril/config/field.h"

namespace tril {

/// Where a value comes from.
struct Place {
  std::string origin;  ///< "configs/a.json" or "--set train.steps=abc": begins every message
  std::string key;     ///< "train.steps"
  std::filesystem::path folder = {};  ///< what PathBase::kConfigFile is relative to
};

/// A value in a message: JSON on one line, shortened; "a list" or "an object" for those.
std::string show_value(const Json& value);

/// "1 to 64", "0 or more", "greater than 0", "0 to less than 1", "" when everything is allowed.
std::string describe_range(const Rule& rule);

/// The names of an enum's table, "cosine, linear".
template <typename E>
std::string describe_choices() {
  std::string text;
  for (const EnumName<E>& entry : enum_names(E{})) {
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text;
}

/// "a.json: train.steps must be <expected>, found <value>. <hint>"
[[noreturn]] void refuse_value(const Place& place,
                               const std::string& expected,
                               const Json& found,
                               std::string_view hint = {});

/// Each reads `json` into `out` or throws ConfigError. Whole numbers may be written 8, 8.0 or 8e0;
/// a boolean is not a number and a number not a text.
void read_value(const Json& json, const Rule& rule, const Place& place, int64_t& out);
void read_value(const Json& json, const Rule& rule, const Place& place, uint64_t& out);
void read_value(const Json& json, const Rule& rule, const Place& place, double& out);
void read_value(const Json& json, const Rule& rule, const Place& place, bool& out);
/// A path comes out absolute; keywords stay.
void read_value(const Json& json, const Rule& rule, const Place& place, std::string& out);
/// null is nothing.
void read_value(const Json& json, const Rule& rule, const Place& place, std::optional<double>& out);

/// A path, or a list of paths and of {"file": path, "weight": number} objects.
void read_value(const Json& json, const Rule& rule, const Place& place, TrainFiles& out);

/// Letters to change, add or drop to turn one word into the other; upper and lower case are equal.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate most like `word`, if one is like it at all (distance at most a third of its
/// length, at least 2). The first wins a tie.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& among);

/// One name of an enum's table.
template <typename E>
requires std::is_enum_v<E>
void read_value(const Json& json, const Rule& rule, const Place& place, E& out) {
  std::vector<std::string> names;
  for (const EnumName<E>& entry : enum_names(E{})) {
    if (json.is_string() && json.get_ref<const std::string&>() == entry.name) {
      out = entry.value;
      return;
    }
    names.emplace_back(entry.name);
  }
  std::string hint;
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    // A hint about this very value says more than its nearest neighbour.
    if (!text.empty() && rule.hint.find(text) != std::string_view::npos) {
      hint = rule.hint;
    } else if (const auto name = nearest(text, names)) {
      hint = "Did you mean \"" + *name + "\"?";
    }
  }
  refuse_value(place, "one of " + describe_choices<E>(), json, hint);
}

/// The JSON of a value, as a resolved config holds it.
inline Json write_value(int64_t value) {
  return value;
}
inline Json write_value(uint64_t value) {
  return value;
}
inline Json write_value(double value) {
  return value;
}
inline Json write_value(bool value) {
  return value;
}
inline Json write_value(const std::string& value) {
  return value;
}
inline Json write_value(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}
inline Json write_value(const TrainFiles& value) {
  if (!value.is_list) return value.files.front().file;
  Json list = Json::array();
  for (const WeightedFile& entry : value.files) {
    list.push_back({{"file", entry.file}, {"weight", entry.weight}});
  }
  return list;
}
template <typename E>
requires std::is_enum_v<E> Json write_value(E value) {
  return std::string(enum_name(value));
}

}  // namespace tril
