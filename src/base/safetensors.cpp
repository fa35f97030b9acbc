#include "tril/base/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "posix_file.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"

namespace tril {

namespace {

constexpr size_t kLengthBytes = 8;
// About 100 000 tensors. The library's own limit is 100 MB, which parsed would take up to 2 GB.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr size_t kDataAlignment = 64;
constexpr const char* kMetadataKey = "__metadata__";

using Dtype = std::pair<std::string_view, size_t>;
constexpr std::array<Dtype, 13> kDtypes{{{"F64", 8},
                                         {"F32", 4},
                                         {"F16", 2},
                                         {"BF16", 2},
                                         {"I64", 8},
                                         {"I32", 4},
                                         {"I16", 2},
                                         {"I8", 1},
                                         {"U64", 8},
                                         {"U32", 4},
                                         {"U16", 2},
                                         {"U8", 1},
                                         {"BOOL", 1}}};

/// Collects where we are, so that each check is one line.
class Refusal {
 public:
  explicit Refusal(const std::filesystem::path& path) : where_(shown(path)) {}

  [[noreturn]] void file(const std::string& reason) const {
    throw CheckpointError(fmt::format("{} is not a usable safetensors file: {}", where_, reason));
  }
  [[noreturn]] void tensor(const std::string& name, const std::string& reason) const {
    file(fmt::format("tensor \"{}\": {}", escape_for_message(name), reason));
  }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

/// Bytes of a shape, or nothing when the product leaves 63 bits. Zero sizes do not hide the
/// overflow of the others: strides are formed from them.
std::optional<uint64_t> shape_bytes(const std::vector<int64_t>& shape, size_t element_bytes) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  uint64_t bytes = element_bytes;
  bool is_empty = false;
  for (const int64_t size : shape) {
    if (size == 0) {
      is_empty = true;
    } else if (bytes > kMax / static_cast<uint64_t>(size)) {
      return std::nullopt;
    } else {
      bytes *= static_cast<uint64_t>(size);
    }
  }
  return is_empty ? 0 : bytes;
}

/// A JSON whole number in [0, 2^63).
std::optional<int64_t> as_size(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned()) {
    const auto size = value.get<uint64_t>();
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(size);
  }
  const auto size = value.get<int64_t>();
  return size < 0 ? std::nullopt : std::optional(size);
}

std::string shown_json(const Json& value) {
  return escape_for_message(dump_json(value, -1));
}

/// What the file seems to be instead, from its first bytes; empty when nothing is recognised.
std::string_view recognise_foreign(std::string_view head) {
  if (head.starts_with("version https://git-lfs")) {
    return "it looks like a Git LFS pointer, not the file itself; fetch it with `git lfs pull`";
  }
  if (head.starts_with("PK\x03\x04")) {
    return "it looks like a zip archive (a PyTorch .pt or .bin file?); convert it to safetensors "
           "with Python first";
  }
  if (head.starts_with("\x80\x02") || head.starts_with("\x80\x03") ||
      head.starts_with("\x80\x04")) {
    return "it looks like a Python pickle, which is never loaded; convert it to safetensors with "
           "Python first";
  }
  if (head.starts_with("GGUF")) return "it looks like a GGUF file";
  return "";
}

TensorInfo parse_tensor(const std::string& name,
                        const Json& entry,
                        uint64_t data_bytes,
                        const Refusal& refuse) {
  if (!entry.is_object()) {
    refuse.tensor(name, "expected an object with dtype, shape and data_offsets");
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) refuse.tensor(name, fmt::format("its \"{}\" is missing", key));
  }
  TensorInfo info;
  info.name = name;

  const Json& dtype = entry["dtype"];
  const size_t element_bytes =
      dtype.is_string() ? safetensors_element_bytes(dtype.get_ref<const std::string&>()) : 0;
  if (element_bytes == 0) {
    refuse.tensor(name,
                  fmt::format("unknown dtype {}, expected one of F64 F32 F16 BF16 I64 I32 I16 I8 "
                              "U64 U32 U16 U8 BOOL",
                              shown_json(dtype)));
  }
  info.dtype = dtype.get<std::string>();

  const Json& shape = entry["shape"];
  if (!shape.is_array()) refuse.tensor(name, "its shape is not a list");
  for (const Json& size : shape) {
    const std::optional<int64_t> value = as_size(size);
    if (!value) refuse.tensor(name, fmt::format("its shape holds {}", shown_json(size)));
    info.shape.push_back(*value);
  }
  const std::optional<uint64_t> n_bytes = shape_bytes(info.shape, element_bytes);
  if (!n_bytes) {
    refuse.tensor(name, fmt::format("its shape {} is impossibly large", shown_json(shape)));
  }

  const Json& offsets = entry["data_offsets"];
  const bool is_pair = offsets.is_array() && offsets.size() == 2;
  const std::optional<int64_t> begin = is_pair ? as_size(offsets[0]) : std::nullopt;
  const std::optional<int64_t> end = is_pair ? as_size(offsets[1]) : std::nullopt;
  if (!begin || !end || *end < *begin) {
    refuse.tensor(name,
                  fmt::format("its data_offsets are {}, expected [begin, end] with begin <= end",
                              shown_json(offsets)));
  }
  info.begin = static_cast<uint64_t>(*begin);
  info.end = static_cast<uint64_t>(*end);
  if (info.end > data_bytes) {
    refuse.tensor(name,
                  fmt::format("its data ends at byte {}, but the file holds {} bytes of data; it "
                              "is truncated",
                              info.end,
                              data_bytes));
  }
  if (info.end - info.begin != *n_bytes) {
    refuse.tensor(name,
                  fmt::format("{} of shape {} takes {} bytes, but its data_offsets span {}",
                              info.dtype,
                              shown_json(shape),
                              *n_bytes,
                              info.end - info.begin));
  }
  return info;
}

/// The ranges must tile the data area: the format forbids holes, in which anything could hide.
void check_ranges(const std::vector<TensorInfo>& tensors,
                  uint64_t data_bytes,
                  const Refusal& refuse) {
  std::vector<const TensorInfo*> by_place;
  by_place.reserve(tensors.size());
  for (const TensorInfo& info : tensors) by_place.push_back(&info);
  std::sort(by_place.begin(), by_place.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t expected = 0;
  for (const TensorInfo* info : by_place) {
    if (info->begin != expected) {
      refuse.tensor(info->name,
                    fmt::format("its data begins at byte {}, expected {}: the ranges {}",
                                info->begin,
                                expected,
                                info->begin < expected ? "overlap" : "leave a hole"));
    }
    expected = info->end;
  }
  if (expected != data_bytes) {
    refuse.file(fmt::format(
        "it holds {} bytes of data, but its tensors end at byte {}", data_bytes, expected));
  }
}

}  // namespace

size_t safetensors_element_bytes(const std::string& dtype) {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

SafetensorsHeader parse_safetensors(std::string_view text, const std::filesystem::path& path) {
  const Refusal refuse(path);
  if (const std::string_view foreign = recognise_foreign(text); !foreign.empty()) {
    refuse.file(std::string(foreign));
  }
  if (text.size() < kLengthBytes) {
    refuse.file(fmt::format(
        "it has {} bytes, expected at least {}; it is truncated", text.size(), kLengthBytes));
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= uint64_t{static_cast<uint8_t>(text[i])} << (8 * i);
  }
  if (header_bytes > text.size() - kLengthBytes) {
    refuse.file(
        fmt::format("its first 8 bytes announce a header of {} bytes, but {} follow; it is "
                    "truncated or of another format",
                    header_bytes,
                    text.size() - kLengthBytes));
  }
  if (header_bytes > kMaxHeaderBytes) {
    refuse.file(
        fmt::format("its header has {} bytes, expected at most {}", header_bytes, kMaxHeaderBytes));
  }
  SafetensorsHeader result;
  result.data_offset = kLengthBytes + static_cast<size_t>(header_bytes);
  const uint64_t data_bytes = text.size() - result.data_offset;

  const std::string_view header_text = text.substr(kLengthBytes, static_cast<size_t>(header_bytes));
  if (!header_text.starts_with('{')) {
    refuse.file(fmt::format("its header begins with \"{}\", expected JSON that begins with {{",
                            escape_for_message(header_text.substr(0, 8))));
  }
  const Json header =
      parse_json(header_text, refuse.where() + " (safetensors header)", FileRole::kCheckpoint);
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadataKey) {
      result.tensors.push_back(parse_tensor(name, entry, data_bytes, refuse));
      continue;
    }
    if (!entry.is_object()) refuse.file("its __metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) {
        refuse.file(fmt::format("its __metadata__ entry \"{}\" is {}, expected a string",
                                escape_for_message(key),
                                shown_json(value)));
      }
      result.metadata[key] = value.get<std::string>();
    }
  }
  check_ranges(result.tensors, data_bytes, refuse);
  return result;  // a Json object iterates by name, so `tensors` is sorted
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.map_ = MappedFile(path, FileRole::kCheckpoint);
  const std::span<const std::byte> bytes = file.map_.bytes();
  file.header_ =
      parse_safetensors({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  return file;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::lower_bound(
      tensors().begin(),
      tensors().end(),
      name,
      [](const TensorInfo& info, const std::string& wanted) { return info.name < wanted; });
  return found != tensors().end() && found->name == name ? &*found : nullptr;
}

std::span<const std::byte> SafetensorsFile::data(const TensorInfo& info) const {
  assert(info.begin <= info.end && info.end <= map_.bytes().size() - header_.data_offset);
  return map_.bytes().subspan(header_.data_offset + static_cast<size_t>(info.begin),
                              static_cast<size_t>(info.end - info.begin));
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::vector<TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::sort(
      tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorToWrite& tensor = tensors[i];
    const size_t element_bytes = safetensors_element_bytes(tensor.dtype);
    if (element_bytes == 0 || shape_bytes(tensor.shape, element_bytes) != tensor.data.size() ||
        tensor.name == kMetadataKey || (i > 0 && tensors[i - 1].name == tensor.name)) {
      throw std::logic_error("write_safetensors: tensor \"" + tensor.name +
                             "\" has an unknown dtype, a size that differs from its shape, or a "
                             "name that is taken");
    }
  }
  // Wide elements first (then by name, as sorted above): so each tensor is aligned to its element,
  // which readers that view the file in place need.
  std::vector<const TensorToWrite*> by_place;
  by_place.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) by_place.push_back(&tensor);
  std::stable_sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) {
    return safetensors_element_bytes(a->dtype) > safetensors_element_bytes(b->dtype);
  });

  OrderedJson header = OrderedJson::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite* tensor : by_place) {
    header[tensor->name] = {{"dtype", tensor->dtype},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->data.size()}}};
    offset += tensor->data.size();
  }
  std::string text = header.dump();
  const size_t n_over = (kLengthBytes + text.size()) % kDataAlignment;
  if (n_over != 0) text.append(kDataAlignment - n_over, ' ');

  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length.push_back(static_cast<char>((uint64_t{text.size()} >> (8 * i)) & 0xFF));
  }
  FileWriter file(path);
  FingerprintStream written;
  const auto write = [&](const void* data, size_t n_bytes) {
    file.write(data, n_bytes);
    written.update(data, n_bytes);
  };
  write(length.data(), length.size());
  write(text.data(), text.size());
  for (const TensorToWrite* tensor : by_place) write(tensor->data.data(), tensor->data.size());
  const uint64_t n_bytes = file.bytes_written();
  file.finish();
  return {n_bytes, written.hex()};
}

}  // namespace tril
