#include "tril/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/fingerprint.h"
#include "tril/base/safetensors.h"
#include "tril/checkpoint/tensor_io.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

constexpr int kFormatVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kConfig = "config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr std::array kKnownFiles = {kModel, kOptimizer, kState, kConfig, kTokenizer};
constexpr uint64_t kMaxManifestBytes = 1 << 20;

void write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

/// Each field of state.json once: writing and reading both use this list.
template <class State, class Visitor>
void visit_state(State& s, Visitor&& visit) {
  visit("step", s.step);
  visit("windows_seen", s.windows_seen);
  visit("tokens_seen", s.tokens_seen);
  visit("evaluated_step", s.evaluated_step);
  visit("validation_loss", s.validation_loss);
  visit("best_validation_loss", s.best_validation_loss);
  visit("best_step", s.best_step);
  visit("precision", s.precision);
  visit("attention", s.attention);
  visit("threads", s.threads);
  visit("train_fingerprint", s.train_fingerprint);
  visit("validation_fingerprint", s.validation_fingerprint);
}

OrderedJson state_to_json(const CheckpointState& state) {
  OrderedJson json;
  json["format_version"] = kFormatVersion;
  visit_state(state, [&](const char* key, const auto& value) {
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

void read_value(const Json& json, int64_t& value) {
  if (!json.is_number_integer()) throw CheckpointError("expected an integer");
  value = json.get<int64_t>();
  if (value < 0) throw CheckpointError("expected a value >= 0");
}
void read_value(const Json& json, std::string& value) {
  if (!json.is_string()) throw CheckpointError("expected a string");
  value = json.get<std::string>();
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

void check_version(const Json& json, const fs::path& path) {
  if (!json.is_object() || !json.contains("format_version") ||
      !json["format_version"].is_number_integer()) {
    throw CheckpointError(fmt::format(
        "{}: no format_version: this is not a file of a tril checkpoint", path.string()));
  }
  if (json["format_version"] != kFormatVersion) {
    throw CheckpointError(fmt::format("{}: format_version {} is not {}, the one this tril reads",
                                      path.string(),
                                      json["format_version"].dump(),
                                      kFormatVersion));
  }
}

/// Renames a finished folder to its final name. One that is there already (the same step, saved
/// with more in it) is exchanged in one step, so that at no instant there is none.
void put_in_place(const fs::path& temporary, const fs::path& folder) {
  std::error_code ignored;
  const bool replaces = fs::exists(folder, ignored);
  const auto rename = [](const fs::path& from, const fs::path& to, unsigned flags) {
    return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
  };
  fs::path old = temporary;  // where the old content is after an exchange
  bool done = rename(temporary, folder, replaces ? RENAME_EXCHANGE : 0);
  if (!done && replaces && (errno == EINVAL || errno == ENOSYS)) {
    // A file system that cannot exchange (NFS): for one instant there is none of this step.
    old = temporary_sibling(folder);
    if (rename(folder, old, 0)) {
      done = rename(temporary, folder, 0);
      if (!done) rename(old, folder, 0);
    }
  }
  if (!done) {
    throw ResourceError(fmt::format(
        "cannot rename {} to {}: {}", temporary.string(), folder.string(), std::strerror(errno)));
  }
  if (replaces) fs::remove_all(old, ignored);
}

bool is_hex_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const CheckpointContent& content) {
  const fs::path temporary = temporary_sibling(folder);
  std::error_code ignored;
  try {
    std::error_code error;
    fs::create_directories(temporary, error);
    if (error) {
      throw ResourceError(
          fmt::format("cannot make the folder {}: {}", temporary.string(), error.message()));
    }
    save_tensors(temporary / kModel, content.parameters);
    save_tensors(temporary / kOptimizer, content.optimizer);
    write_text(temporary / kState, dump_json(state_to_json(content.state)) + "\n");
    write_text(temporary / kConfig, dump_json(content.config) + "\n");
    write_text(temporary / kTokenizer, dump_json(content.tokenizer) + "\n");

    OrderedJson files = OrderedJson::object();
    for (const char* name : kKnownFiles) {
      files[name] = {{"bytes", fs::file_size(temporary / name)},
                     {"xxh3", fingerprint_file(temporary / name, FileRole::kCheckpoint)}};
    }
    OrderedJson manifest;
    manifest["format_version"] = kFormatVersion;
    manifest["step"] = content.state.step;
    manifest["files"] = std::move(files);
    write_text(temporary / kManifest, dump_json(manifest) + "\n");
    fsync_folder(temporary);

    put_in_place(temporary, folder);
    fsync_folder(folder.parent_path());
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

bool Checkpoint::is_complete(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifest, ignored);
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    throw CheckpointError(fmt::format("{}: there is no such checkpoint", folder.string()));
  }
  if (!fs::is_directory(folder, ignored)) {
    throw CheckpointError(
        fmt::format("{}: not a checkpoint: expected a folder with {}", folder.string(), kManifest));
  }
  if (!is_complete(folder)) {
    throw CheckpointError(
        fmt::format("{}: not a complete checkpoint: {} is not there", folder.string(), kManifest));
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const fs::path path = folder / kManifest;
  const Json manifest = read_json_file(path, FileRole::kCheckpoint, kMaxManifestBytes);
  check_version(manifest, path);
  if (!manifest.contains("files") || !manifest["files"].is_object()) {
    throw CheckpointError(fmt::format("{}: 'files' must be an object", path.string()));
  }
  for (const auto& [name, entry] : manifest["files"].items()) {
    // Only names that tril writes: a manifest from a stranger cannot point outside its folder.
    if (std::find(kKnownFiles.begin(), kKnownFiles.end(), name) == kKnownFiles.end()) {
      throw CheckpointError(fmt::format("{}: unknown file '{}'", path.string(), name));
    }
    if (!entry.is_object() || !entry.contains("bytes") || !entry["bytes"].is_number_unsigned() ||
        !entry.contains("xxh3") || !entry["xxh3"].is_string() ||
        !is_hex_digest(entry["xxh3"].get<std::string>())) {
      throw CheckpointError(fmt::format(
          "{}: the entry of '{}' needs bytes and xxh3 (32 hex digits)", path.string(), name));
    }
    const File file{name, entry["bytes"].get<uint64_t>(), entry["xxh3"].get<std::string>()};
    std::error_code error;
    const auto size = fs::file_size(folder / name, error);
    if (error) {
      throw CheckpointError(fmt::format("{}: {}", (folder / name).string(), error.message()));
    }
    if (size != file.bytes) {
      throw CheckpointError(fmt::format("{}: damaged: {} bytes, the manifest says {} ({})",
                                        (folder / name).string(),
                                        size,
                                        file.bytes,
                                        size < file.bytes ? "truncated" : "too long"));
    }
    checkpoint.files_.push_back(file);
  }
  for (const char* name : {kModel, kState, kConfig, kTokenizer}) {
    if (checkpoint.find(name) == nullptr) {
      throw CheckpointError(fmt::format("{}: '{}' is not listed", path.string(), name));
    }
  }
  return checkpoint;
}

const Checkpoint::File* Checkpoint::find(const std::string& name) const {
  for (const File& file : files_) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

fs::path Checkpoint::checked(const std::string& name) const {
  const fs::path path = folder_ / name;
  const std::string found = fingerprint_file(path, FileRole::kCheckpoint);
  if (found != find(name)->xxh3) {
    throw CheckpointError(
        fmt::format("{}: damaged: checksum {} where the manifest says {}. Use another checkpoint "
                    "(tril checkpoint list RUN)",
                    path.string(),
                    found,
                    find(name)->xxh3));
  }
  return path;
}

CheckpointState Checkpoint::state() const {
  const fs::path path = checked(kState);
  const Json json = read_json_file(path, FileRole::kCheckpoint, kMaxManifestBytes);
  check_version(json, path);
  CheckpointState state;
  visit_state(state, [&](const char* key, auto& value) {
    if (!json.contains(key)) {
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

Json Checkpoint::config() const {
  return read_json_file(checked(kConfig), FileRole::kCheckpoint);
}

Json Checkpoint::tokenizer() const {
  return read_json_file(checked(kTokenizer), FileRole::kCheckpoint);
}

bool Checkpoint::has_optimizer() const {
  return find(kOptimizer) != nullptr;
}

void Checkpoint::load_parameters(const std::vector<NamedTensor>& parameters) const {
  load_tensors(SafetensorsFile::open(checked(kModel)), parameters);
}

void Checkpoint::load_optimizer(const std::vector<NamedTensor>& optimizer) const {
  if (!has_optimizer()) {
    throw CheckpointError(fmt::format(
        "{}: weights only: there is no optimizer state to resume from. Start a new run instead",
        folder_.string()));
  }
  load_tensors(SafetensorsFile::open(checked(kOptimizer)), optimizer);
}

std::vector<std::string> Checkpoint::verify() const {
  std::vector<std::string> faults;
  const auto attempt = [&](const auto& check) {
    try {
      check();
    } catch (const Error& error) {
      faults.emplace_back(error.what());
    }
  };
  for (const File& file : files_) attempt([&] { checked(file.name); });
  if (!faults.empty()) return faults;
  attempt([&] { state(); });
  attempt([&] { config(); });
  attempt([&] { tokenizer(); });
  attempt([&] { SafetensorsFile::open(folder_ / kModel); });
  if (has_optimizer()) attempt([&] { SafetensorsFile::open(folder_ / kOptimizer); });
  return faults;
}

}  // namespace tril
