#pragma once
// JSON of untrusted origin: strict, bounded, and with a place in every error.

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tril/base/file.h"

namespace tril {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// Parses one JSON document. Duplicate keys, nesting deeper than 64, invalid UTF-8, trailing text,
/// comments and trailing commas are errors of `role`, with `origin`, line and column.
/// A UTF-8 byte-order mark is skipped; CR LF is white space.
Json parse_json(std::string_view text, const std::string& origin, FileRole role);

/// Reads and parses a file (at most `max_bytes`).
Json read_json_file(const std::filesystem::path& path,
                    FileRole role,
                    uint64_t max_bytes = uint64_t{64} << 20);

/// Text for stdout or a file: valid JSON whatever bytes a string holds (invalid UTF-8 becomes
/// U+FFFD). `indent` < 0 gives one line.
std::string dump_json(const OrderedJson& value, int indent = 2);
std::string dump_json(const Json& value, int indent = 2);

}  // namespace tril
