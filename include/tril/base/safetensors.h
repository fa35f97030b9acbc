#pragma once
// The safetensors format: 8-byte little-endian header length, a JSON header, raw tensor data.
// Source: the format description of the safetensors project. No Torch here: names, types, shapes
// and bytes only. Everything in a file is checked before it is used.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/file.h"

namespace tril {

/// "F32", "F16", "BF16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL": as in the file.
struct TensorInfo {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< offset of the first byte in the data area
  uint64_t end = 0;    ///< one past the last byte
};

/// Bytes of one element of a dtype; 0 for an unknown one.
size_t safetensors_element_bytes(const std::string& dtype);

/// What the first bytes of a file say about the rest.
struct SafetensorsHeader {
  size_t data_offset = 0;           ///< where the data area begins
  std::vector<TensorInfo> tensors;  ///< sorted by name
  std::map<std::string, std::string> metadata;
};

/// Checks the bytes of a whole file; `path` is for messages only. Throws as SafetensorsFile::open.
SafetensorsHeader parse_safetensors(std::string_view bytes, const std::filesystem::path& path);

/// An open file: a map, and its checked header. Names are sorted.
class SafetensorsFile {
 public:
  /// Throws CheckpointError with the path and the reason: too short, header length beyond the file,
  /// not JSON, unknown dtype, shape whose size overflows or differs from its bytes, ranges that
  /// overlap, leave holes or pass the end, or a Git LFS pointer.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// nullptr when there is no tensor of this name.
  const TensorInfo* find(const std::string& name) const;
  std::span<const std::byte> data(const TensorInfo& info) const;
  const std::filesystem::path& path() const { return map_.path(); }

 private:
  MappedFile map_;
  SafetensorsHeader header_;
};

/// One tensor to write; `data` must stay valid during the call.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

/// What was written, told while it was written: for comparing with what is read back.
struct WrittenFile {
  uint64_t bytes = 0;
  std::string xxh3;  ///< fingerprint of all bytes
};

/// Writes and fsyncs `path`. Tensors are ordered by name and the header has no clock, host or path,
/// so equal tensors give equal bytes. The data area starts at a multiple of 64 bytes.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::vector<TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace tril
