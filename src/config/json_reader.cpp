#include "tril/config/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "tril/base/utf8.h"

namespace tril {

namespace {

constexpr size_t kMaxShownBytes = 80;

/// The whole number a JSON number stands for; nothing for fractions and beyond +-2^53.
std::optional<int64_t> whole_number(const Json& json) {
  constexpr auto kLimit = static_cast<int64_t>(kMaxExactInteger);
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(kLimit)) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    if (value < -kLimit || value > kLimit) return std::nullopt;
    return value;
  }
  if (json.is_number_float()) {
    const auto value = json.get<double>();
    // Not a number fails the first test, infinity the second.
    if (std::trunc(value) != value || std::abs(value) > kMaxExactInteger) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

bool in_range(double value, const Rule& rule) {
  if (!std::isfinite(value)) return false;
  const bool high_enough = rule.min_itself ? value >= rule.min : value > rule.min;
  const bool low_enough = rule.max_itself ? value <= rule.max : value < rule.max;
  return high_enough && low_enough;
}

std::string show_number(double value) {
  if (std::trunc(value) == value && std::abs(value) <= kMaxExactInteger) {
    return fmt::format("{}", static_cast<int64_t>(value));
  }
  return fmt::format("{}", value);
}

std::string expected_number(std::string_view kind, const Rule& rule) {
  const std::string range = describe_range(rule);
  return range.empty() ? std::string(kind) : fmt::format("{}, {}", kind, range);
}

/// For a value of the right meaning in quotes: "8", "true".
std::string_view quotes_hint(const Json& found) {
  if (!found.is_string()) return {};
  const Json inside = Json::parse(found.get_ref<const std::string&>(), nullptr, false);
  return inside.is_number() || inside.is_boolean() ? "Write it without quotes." : "";
}

[[noreturn]] void refuse_number(const Place& place,
                                std::string_view kind,
                                const Rule& rule,
                                const Json& found) {
  std::string hint(quotes_hint(found));
  if (hint.empty()) hint = rule.hint;
  refuse_value(place, expected_number(kind, rule), found, hint);
}

int64_t read_whole_number(const Json& json, const Rule& rule, const Place& place) {
  if (rule.null_is_zero && json.is_null()) return 0;
  const std::optional<int64_t> value = whole_number(json);
  if (!value || !in_range(static_cast<double>(*value), rule)) {
    refuse_number(place, "a whole number", rule, json);
  }
  return *value;
}

std::vector<std::string> keywords_of(const Rule& rule) {
  std::vector<std::string> keywords;
  std::string_view rest = rule.keywords;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('|'), rest.size());
    keywords.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return keywords;
}

/// "bpe:N" stands for "bpe:" and a number.
bool is_keyword(std::string_view text, const std::vector<std::string>& keywords) {
  return std::any_of(keywords.begin(), keywords.end(), [&](std::string_view keyword) {
    if (!keyword.ends_with(":N")) return text == keyword;
    keyword.remove_suffix(1);
    if (!text.starts_with(keyword) || text.size() == keyword.size()) return false;
    return text.find_first_not_of("0123456789", keyword.size()) == std::string_view::npos;
  });
}

std::string absolute_path(const std::string& text, const Rule& rule, const Place& place) {
  std::filesystem::path path(text);
  if (rule.path == PathBase::kConfigFile) path = place.folder / path;
  std::error_code error;
  path = std::filesystem::absolute(path, error).lexically_normal();
  if (error) {
    throw ConfigError(fmt::format("{}: {}: cannot make {} absolute: {}",
                                  place.origin,
                                  place.key,
                                  escape_for_message(text),
                                  error.message()));
  }
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // "runs/a/"
  return path.string();
}

std::string read_path(const Json& json, const Rule& rule, const Place& place) {
  const auto& text = json.get_ref<const std::string&>();
  const std::vector<std::string> keywords = keywords_of(rule);
  if (is_keyword(text, keywords)) return text;
  std::string expected;
  for (const std::string& keyword : keywords) {
    if (!keyword.empty()) expected += '"' + keyword + "\" or ";
  }
  if (text.empty() || text.find('\0') != std::string::npos) {
    refuse_value(place, expected + "a path", json);
  }
  // A bare word is more often a misspelt keyword than a file: "talse" must not become a path.
  const bool looks_like_path = text.find_first_of("/.") != std::string::npos;
  if (rule.path == PathBase::kConfigFile && !looks_like_path) {
    std::string hint = fmt::format("A file of this name is written \"./{}\".", text);
    if (const auto keyword = nearest(text, keywords)) {
      hint = fmt::format("Did you mean \"{}\"? {}", *keyword, hint);
    }
    refuse_value(place, expected + "a path with a \"/\" or a \".\" in it", json, hint);
  }
  return absolute_path(text, rule, place);
}

}  // namespace

std::string show_value(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) {
    return '"' + escape_for_message(value.get_ref<const std::string&>(), kMaxShownBytes) + '"';
  }
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

std::string describe_range(const Rule& rule) {
  const bool has_min = std::isfinite(rule.min);
  const bool has_max = std::isfinite(rule.max);
  std::string text;
  if (has_min && has_max && rule.min_itself) {
    return fmt::format("{} to {}{}",
                       show_number(rule.min),
                       rule.max_itself ? "" : "less than ",
                       show_number(rule.max));
  }
  if (has_min) text = (rule.min_itself ? "at least " : "greater than ") + show_number(rule.min);
  if (has_max) {
    if (has_min) text += ", ";
    text += (rule.max_itself ? "at most " : "less than ") + show_number(rule.max);
  }
  return text;
}

void refuse_value(const Place& place,
                  const std::string& expected,
                  const Json& found,
                  std::string_view hint) {
  std::string message = fmt::format(
      "{}: {} must be {}; found {}.", place.origin, place.key, expected, show_value(found));
  if (!hint.empty()) message += fmt::format(" {}", hint);
  throw ConfigError(message);
}

void read_value(const Json& json, const Rule& rule, const Place& place, int64_t& out) {
  out = read_whole_number(json, rule, place);
}

void read_value(const Json& json, const Rule& rule, const Place& place, uint64_t& out) {
  const int64_t value = read_whole_number(json, rule, place);
  if (value < 0) refuse_number(place, "a whole number", rule, json);
  out = static_cast<uint64_t>(value);
}

void read_value(const Json& json, const Rule& rule, const Place& place, double& out) {
  if (rule.null_is_zero && json.is_null()) {
    out = 0;
    return;
  }
  if (!json.is_number() || !in_range(json.get<double>(), rule)) {
    refuse_number(place, "a number", rule, json);
  }
  out = json.get<double>();
}

void read_value(const Json& json, const Rule&, const Place& place, bool& out) {
  if (!json.is_boolean()) refuse_value(place, "true or false", json, quotes_hint(json));
  out = json.get<bool>();
}

void read_value(const Json& json, const Rule& rule, const Place& place, std::string& out) {
  const std::string expected = rule.allowed.empty() ? "a text" : std::string(rule.allowed);
  if (!json.is_string()) refuse_value(place, expected, json, rule.hint);
  const auto& text = json.get_ref<const std::string&>();
  if (rule.accepts != nullptr && !rule.accepts(text)) {
    refuse_value(place, expected, json, rule.hint);
  }
  out = rule.path == PathBase::kNone ? text : read_path(json, rule, place);
}

void read_value(const Json& json, const Rule& rule, const Place& place, TrainFiles& out) {
  constexpr size_t kMaxFiles = 1024;
  if (json.is_string()) {
    out = TrainFiles(read_path(json, rule, place));
    return;
  }
  if (!json.is_array() || json.empty() || json.size() > kMaxFiles) {
    refuse_value(place,
                 fmt::format("a path, or a list of 1 to {} entries such as {{\"file\": "
                             "\"a.txt\", \"weight\": 2}}",
                             kMaxFiles),
                 json,
                 json.is_array() ? fmt::format("The list has {} entries.", json.size()) : "");
  }
  std::vector<WeightedFile> files;
  for (const Json& entry : json) {
    Place at = place;
    at.key = fmt::format("{}[{}]", place.key, files.size());
    WeightedFile file;
    const Json* path = &entry;
    if (entry.is_object()) {
      for (const auto& [name, value] : entry.items()) {
        if (name == "file" || name == "weight") continue;
        throw ConfigError(
            fmt::format("{}: {}: unknown key \"{}\"; expected \"file\" and "
                        "\"weight\".",
                        place.origin,
                        at.key,
                        escape_for_message(name)));
      }
      if (!entry.contains("file")) {
        throw ConfigError(
            fmt::format("{}: {}: the key \"file\" is missing.", place.origin, at.key));
      }
      path = &entry.at("file");
      if (entry.contains("weight")) {
        constexpr Rule kWeight{.min = 0, .max = 1e9, .min_itself = false};
        const Place weight{at.origin, at.key + ".weight", at.folder};
        read_value(entry.at("weight"), kWeight, weight, file.weight);
      }
      at.key += ".file";
    }
    if (!path->is_string()) refuse_value(at, "a path", *path);
    file.file = read_path(*path, rule, at);
    files.push_back(std::move(file));
  }
  out = TrainFiles(std::move(files));
}

void read_value(const Json& json,
                const Rule& rule,
                const Place& place,
                std::optional<double>& out) {
  if (json.is_null()) {
    out.reset();
    return;
  }
  if (!json.is_number() || !in_range(json.get<double>(), rule)) {
    refuse_number(place, "null or a number", rule, json);
  }
  out = json.get<double>();
}

size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& among) {
  // Nothing in tril is longer, and an absurdly long word must not cost a long time.
  constexpr size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : among) {
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;  // so many letters are missing at least
    const size_t distance = edit_distance(word, candidate);
    // A word that shares no letter is not near, however short both are.
    if (distance >= longer) continue;
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace tril
