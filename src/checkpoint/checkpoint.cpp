#include "tril/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

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

constexpr uint64_t kMaxManifestBytes = 1 << 20;

/// Writes a small file; returns how it must look when it is read again.
ManifestFile write_text(const fs::path& folder, const char* name, const std::string& text) {
  FileWriter file(folder / name);
  file.write(text);
  file.finish();
  return {name, text.size(), fingerprint(text)};
}

ManifestFile write_tensors(const fs::path& folder,
                           const char* name,
                           const std::vector<NamedTensor>& tensors) {
  const WrittenFile written = save_tensors(folder / name, tensors);
  return {name, written.bytes, written.xxh3};
}

/// Reads a file back from the disk, and compares it with what was to be written: a disk or memory
/// that errs is found while the weights are still there to be saved elsewhere.
void read_back(const fs::path& folder, const ManifestFile& file) {
  const fs::path path = folder / file.name;
  drop_from_page_cache(path);
  const std::string found = fingerprint_file(path, FileRole::kCheckpoint);
  if (found == file.xxh3) return;
  throw ResourceError(fmt::format(
      "{}: reads back otherwise than it was written (checksum {}, expected {}): the disk or the "
      "memory of this machine is faulty. Earlier checkpoints are untouched",
      path.string(),
      found,
      file.xxh3));
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
    std::vector<ManifestFile> files = {
        write_tensors(temporary, kModelName, content.parameters),
        write_text(temporary, kStateName, dump_json(state_to_json(content.state)) + "\n"),
        write_text(temporary, kConfigName, dump_json(content.config) + "\n"),
        write_text(temporary, kTokenizerName, dump_json(content.tokenizer) + "\n")};
    if (!content.optimizer.empty()) {
      files.insert(files.begin() + 1, write_tensors(temporary, kOptimizerName, content.optimizer));
    }
    for (const ManifestFile& file : files) read_back(temporary, file);
    // The manifest comes last: only a folder with one counts as a checkpoint.
    write_text(
        temporary, kManifestName, dump_json(manifest_to_json(content.state.step, files)) + "\n");
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
  return fs::is_regular_file(folder / kManifestName, ignored);
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    throw CheckpointError(fmt::format("{}: there is no such checkpoint", folder.string()));
  }
  if (!fs::is_directory(folder, ignored)) {
    throw CheckpointError(fmt::format(
        "{}: not a checkpoint: expected a folder with {}", folder.string(), kManifestName));
  }
  if (!is_complete(folder)) {
    throw CheckpointError(fmt::format(
        "{}: not a complete checkpoint: {} is not there", folder.string(), kManifestName));
  }
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  const fs::path path = folder / kManifestName;
  const Json manifest = read_json_file(path, FileRole::kCheckpoint, kMaxManifestBytes);
  checkpoint.files_ = manifest_from_json(manifest, path);
  for (const ManifestFile& file : checkpoint.files_) {
    std::error_code error;
    const auto size = fs::file_size(folder / file.name, error);
    if (error) {
      throw CheckpointError(fmt::format("{}: {}", (folder / file.name).string(), error.message()));
    }
    if (size != file.bytes) {
      throw CheckpointError(fmt::format("{}: damaged: {} bytes, manifest.json says {} ({})",
                                        (folder / file.name).string(),
                                        size,
                                        file.bytes,
                                        size < file.bytes ? "truncated" : "too long"));
    }
  }
  return checkpoint;
}

const ManifestFile* Checkpoint::find(const std::string& name) const {
  for (const ManifestFile& file : files_) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

fs::path Checkpoint::checked(const std::string& name) const {
  const fs::path path = folder_ / name;
  const std::string found = fingerprint_file(path, FileRole::kCheckpoint);
  if (found != find(name)->xxh3) {
    throw CheckpointError(
        fmt::format("{}: damaged: checksum {} where manifest.json says {}. Use another checkpoint "
                    "(tril checkpoint list RUN)",
                    path.string(),
                    found,
                    find(name)->xxh3));
  }
  return path;
}

CheckpointState Checkpoint::state() const {
  const fs::path path = checked(kStateName);
  return state_from_json(read_json_file(path, FileRole::kCheckpoint, kMaxManifestBytes), path);
}

Json Checkpoint::config() const {
  return read_json_file(checked(kConfigName), FileRole::kCheckpoint);
}

Json Checkpoint::tokenizer() const {
  return read_json_file(checked(kTokenizerName), FileRole::kCheckpoint);
}

bool Checkpoint::has_optimizer() const {
  return find(kOptimizerName) != nullptr;
}

void Checkpoint::load_parameters(const std::vector<NamedTensor>& parameters) const {
  load_tensors(SafetensorsFile::open(checked(kModelName)), parameters);
}

void Checkpoint::require_optimizer() const {
  if (!has_optimizer()) {
    throw CheckpointError(fmt::format(
        "{}: weights only: there is no optimizer state to resume from. Start a new run from it: "
        "tril train --config FILE --set init_from={}",
        folder_.string(),
        folder_.string()));
  }
}

void Checkpoint::load_optimizer(const std::vector<NamedTensor>& optimizer) const {
  require_optimizer();
  load_tensors(SafetensorsFile::open(checked(kOptimizerName)), optimizer);
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
  for (const ManifestFile& file : files_) attempt([&] { checked(file.name); });
  if (!faults.empty()) return faults;
  attempt([&] { state(); });
  attempt([&] { config(); });
  attempt([&] { tokenizer(); });
  attempt([&] { SafetensorsFile::open(folder_ / kModelName); });
  if (has_optimizer()) attempt([&] { SafetensorsFile::open(folder_ / kOptimizerName); });
  return faults;
}

}  // namespace tril
