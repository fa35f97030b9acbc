#include "tril/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/utf8.h"
#include "tril/checkpoint/checkpoint_state.h"

namespace tril {
namespace {

bool is_hex_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

OrderedJson manifest_to_json(int64_t step, const std::vector<ManifestFile>& files) {
  OrderedJson entries = OrderedJson::object();
  for (const ManifestFile& file : files) {
    entries[file.name] = {{"bytes", file.bytes}, {"xxh3", file.xxh3}};
  }
  OrderedJson manifest;
  manifest["format_version"] = kCheckpointFormatVersion;
  manifest["step"] = step;
  manifest["files"] = std::move(entries);
  return manifest;
}

std::vector<ManifestFile> manifest_from_json(const Json& json, const std::filesystem::path& path) {
  check_format_version(json, path);
  if (!json.contains("files") || !json["files"].is_object()) {
    throw CheckpointError(fmt::format("{}: 'files' must be an object", path.string()));
  }
  std::vector<ManifestFile> files;
  for (const auto& [name, entry] : json["files"].items()) {
    if (std::find(kCheckpointFiles.begin(), kCheckpointFiles.end(), name) ==
        kCheckpointFiles.end()) {
      throw CheckpointError(
          fmt::format("{}: unknown file '{}'", path.string(), escape_for_message(name)));
    }
    if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned() ||
        !entry.contains("xxh3") || !entry["xxh3"].is_string() ||
        !is_hex_digest(entry["xxh3"].get<std::string>())) {
      throw CheckpointError(fmt::format(
          "{}: the entry of '{}' needs bytes and xxh3 (32 hex digits)", path.string(), name));
    }
    files.push_back({name, entry["bytes"].get<uint64_t>(), entry["xxh3"].get<std::string>()});
  }
  const auto is_listed = [&](const char* name) {
    return std::any_of(files.begin(), files.end(), [&](const auto& f) { return f.name == name; });
  };
  for (const char* name : {kModelName, kStateName, kConfigName, kTokenizerName}) {
    if (!is_listed(name)) {
      throw CheckpointError(fmt::format("{}: '{}' is not listed", path.string(), name));
    }
  }
  return files;
}

}  // namespace tril
