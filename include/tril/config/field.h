#pragma once
// How a config struct describes its own fields. Each struct has one `visit` that names every field
// once: key, member, rule. Reading, writing, checking, comparing and configs/README.md all use it.

#include <limits>
#include <span>
#include <string_view>

namespace tril {

/// The name of one enumerator in a config file. Each enum has one table, found by
/// `enum_names(E{})`.
template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};

/// The name of an enumerator, as in a config file.
template <typename E>
constexpr std::string_view enum_name(E value) {
  for (const EnumName<E>& entry : enum_names(value)) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

/// May a stored run go on with another value of this key?
enum class OnResume { kFixed, kMayChange };

/// What a text value that names a file is relative to.
enum class PathBase {
  kNone,           ///< not a path
  kConfigFile,     ///< the folder of the file it stands in (for --set: the working folder)
  kWorkingFolder,  ///< always the working folder
};

/// 2^53: every whole number up to here is exact in JSON.
inline constexpr double kMaxExactInteger = 9007199254740992.0;

/// What a key accepts, and what its reader should know about it.
struct Rule {
  std::string_view meaning = {};
  std::string_view unit = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_itself = true;          ///< false: the value must be greater than `min`
  bool max_itself = true;          ///< false: the value must be smaller than `max`
  bool null_is_zero = false;       ///< null says "not given", as 0 does
  std::string_view keywords = {};  ///< texts with a meaning of their own, "char|byte"
  std::string_view allowed = {};   ///< says what is allowed where a range or choices cannot
  bool (*accepts)(std::string_view) = nullptr;  ///< a further test of a text value
  std::string_view hint = {};  ///< what to try, added to the error of a refused value
  PathBase path = PathBase::kNone;
  OnResume on_resume = OnResume::kFixed;
};

}  // namespace tril
