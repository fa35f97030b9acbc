#include "tril/plot/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>

#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {
namespace {

constexpr size_t kFrameBytes = 16;  ///< length 8, its checksum 4, the data's checksum 4
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 20;  ///< ours are below 1 KiB

// Field numbers and wire types of event.proto and summary.proto: (number << 3) | type.
constexpr uint8_t kEventWallTime = (1 << 3) | 1;
constexpr uint8_t kEventStep = (2 << 3) | 0;
constexpr uint8_t kEventFileVersion = (3 << 3) | 2;
constexpr uint8_t kEventSummary = (5 << 3) | 2;
constexpr uint8_t kSummaryValue = (1 << 3) | 2;
constexpr uint8_t kValueTag = (1 << 3) | 2;
constexpr uint8_t kValueSimple = (2 << 3) | 5;

template <typename T>
void put(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  out.append(bytes.data(), bytes.size());
}

template <typename T>
T get(std::string_view bytes) {
  std::array<char, sizeof(T)> copy{};
  std::memcpy(copy.data(), bytes.data(), sizeof(T));
  if constexpr (std::endian::native == std::endian::big) std::reverse(copy.begin(), copy.end());
  T value{};
  std::memcpy(&value, copy.data(), sizeof value);
  return value;
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void put_bytes(std::string& out, uint8_t key, std::string_view bytes) {
  out += static_cast<char>(key);
  put_varint(out, bytes.size());
  out += bytes;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::string frame(const std::string& data) {
  std::string out;
  put(out, static_cast<uint64_t>(data.size()));
  put(out, masked_crc(std::string_view(out).substr(0, 8)));
  out += data;
  put(out, masked_crc(data));
  return out;
}

/// Reads the fields of one message; stops at what it cannot read.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint64_t key = 0;
    uint64_t number = 0;     ///< of a varint
    std::string_view bytes;  ///< of everything else
  };

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    Field field;
    if (!varint(field.key)) return std::nullopt;
    switch (field.key & 7) {
      case 0:
        return varint(field.number) ? std::optional(field) : std::nullopt;
      case 1:
        return take(8, field.bytes) ? std::optional(field) : std::nullopt;
      case 2: {
        uint64_t size = 0;
        return varint(size) && take(size, field.bytes) ? std::optional(field) : std::nullopt;
      }
      case 5:
        return take(4, field.bytes) ? std::optional(field) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool take(uint64_t size, std::string_view& bytes) {
    if (size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
};

TensorboardScalar decode_value(std::string_view bytes) {
  TensorboardScalar scalar;
  MessageReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->key == kValueTag) scalar.tag = field->bytes;
    if (field->key == kValueSimple) scalar.value = get<float>(field->bytes);
  }
  return scalar;
}

TensorboardEvent decode_event(std::string_view bytes) {
  TensorboardEvent event;
  MessageReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->key == kEventWallTime) event.wall_seconds = get<double>(field->bytes);
    if (field->key == kEventStep) event.step = static_cast<int64_t>(field->number);
    if (field->key != kEventSummary) continue;
    MessageReader values(field->bytes);
    while (const auto value = values.next()) {
      if (value->key == kSummaryValue) event.scalars.push_back(decode_value(value->bytes));
    }
  }
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f63b78U : 0U);
      table[i] = c;
    }
    return table;
  }();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string encode_tensorboard_event(const TensorboardEvent& event) {
  std::string summary;
  for (const auto& scalar : event.scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    value += static_cast<char>(kValueSimple);
    put(value, scalar.value);
    put_bytes(summary, kSummaryValue, value);
  }
  std::string data;
  data += static_cast<char>(kEventWallTime);
  put(data, event.wall_seconds);
  data += static_cast<char>(kEventStep);
  put_varint(data, static_cast<uint64_t>(event.step));
  if (!event.scalars.empty()) put_bytes(data, kEventSummary, summary);
  return frame(data);
}

std::string tensorboard_file_header(double wall_seconds) {
  std::string data;
  data += static_cast<char>(kEventWallTime);
  put(data, wall_seconds);
  put_bytes(data, kEventFileVersion, "brain.Event:2");
  return frame(data);
}

std::vector<TensorboardEvent> decode_tensorboard(std::string_view bytes,
                                                 std::vector<size_t>* good_bytes) {
  std::vector<TensorboardEvent> events;
  size_t at = 0;
  while (bytes.size() - at >= kFrameBytes) {
    const std::string_view rest = bytes.substr(at);
    const auto size = get<uint64_t>(rest);
    if (get<uint32_t>(rest.substr(8)) != masked_crc(rest.substr(0, 8))) break;
    if (size > kMaxRecordBytes || size > rest.size() - kFrameBytes) break;
    const std::string_view data = rest.substr(12, size);
    if (get<uint32_t>(rest.substr(12 + size)) != masked_crc(data)) break;
    events.push_back(decode_event(data));
    at += kFrameBytes + size;
    if (good_bytes != nullptr) good_bytes->push_back(at);
  }
  return events;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& path, int64_t last_step) {
  std::error_code ignored;
  const std::filesystem::path folder = path.parent_path();
  // A link, in a folder from a stranger, could lead anywhere.
  if (std::filesystem::is_symlink(folder, ignored)) return;
  std::filesystem::create_directories(folder, ignored);
  std::string bytes;
  std::string kept;
  if (std::filesystem::exists(path, ignored)) {
    bytes = read_file(path, FileRole::kCheckpoint);
    std::vector<size_t> ends;
    const auto events = decode_tensorboard(bytes, &ends);
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].step > last_step) continue;
      const size_t begin = i == 0 ? 0 : ends[i - 1];
      kept += bytes.substr(begin, ends[i] - begin);
    }
  }
  if (kept.empty()) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    kept = tensorboard_file_header(std::chrono::duration<double>(now).count());
  }
  try {
    if (kept != bytes) write_file_atomically(path, kept);
    file_.emplace(path);
  } catch (const Error&) {  // write() says so: a log stops no run
  }
}

bool TensorboardWriter::write(const TensorboardEvent& event) {
  return file_ && file_->write(encode_tensorboard_event(event));
}

}  // namespace tril
