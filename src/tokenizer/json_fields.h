#pragma once
// What all kinds of tokenizer.json have in common, checked in one place.

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"

namespace tril {

/// Throws DataError unless the object `json` has this "version" and no key outside `keys`.
inline void check_tokenizer_fields(const Json& json,
                                   const std::string& origin,
                                   int64_t version,
                                   std::initializer_list<std::string_view> keys) {
  const auto found = json.find("version");
  if (found == json.end() || !found->is_number_integer() || *found != version) {
    const std::string text = found == json.end() ? "none" : dump_json(*found, -1);
    throw DataError(fmt::format(
        "'{}' has an unknown tokenizer version: expected {}, found {}; a newer tril may be needed",
        origin,
        version,
        escape_for_message(text)));
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw DataError(
          fmt::format("'{}' has the unknown key \"{}\"", origin, escape_for_message(key)));
    }
  }
}

}  // namespace tril
