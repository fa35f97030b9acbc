#include "tril/interop/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "tril/base/file.h"

namespace tril {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;  // the format's default

// Numbers of the value types.
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kFloat32 = 6;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

template <typename Integer>
void put(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out.push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFF));
  }
}
void put_text(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

uint64_t padding_after(uint64_t size) {
  return (kAlignment - size % kAlignment) % kAlignment;
}

}  // namespace

uint64_t ggml_bytes(GgmlType type, uint64_t n) {
  switch (type) {
    case GgmlType::kF32:
      return 4 * n;
    case GgmlType::kF16:
    case GgmlType::kBF16:
      return 2 * n;
    case GgmlType::kQ8_0:
      break;
  }
  return n / kQ8BlockSize * (2 + kQ8BlockSize);
}

void GgufWriter::begin(std::string_view key, uint32_t type) {
  put_text(values_, key);
  put(values_, type);
  ++n_values_;
}

void GgufWriter::add(std::string_view key, uint32_t value) {
  begin(key, kUint32);
  put(values_, value);
}
void GgufWriter::add(std::string_view key, float value) {
  begin(key, kFloat32);
  put(values_, std::bit_cast<uint32_t>(value));
}
void GgufWriter::add(std::string_view key, bool value) {
  begin(key, kBool);
  put(values_, static_cast<uint8_t>(value ? 1 : 0));
}
void GgufWriter::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(values_, value);
}
void GgufWriter::add(std::string_view key, const std::vector<std::string>& values) {
  begin(key, kArray);
  put(values_, kString);
  put(values_, uint64_t{values.size()});
  for (const std::string& value : values) put_text(values_, value);
}
void GgufWriter::add(std::string_view key, const std::vector<int32_t>& values) {
  begin(key, kArray);
  put(values_, kInt32);
  put(values_, uint64_t{values.size()});
  for (const int32_t value : values) put(values_, static_cast<uint32_t>(value));
}

void GgufWriter::add_tensor(std::string name,
                            std::vector<int64_t> shape,
                            GgmlType type,
                            std::function<std::string()> make) {
  uint64_t n = 1;
  for (const int64_t size : shape) n *= static_cast<uint64_t>(size);
  tensors_.push_back(
      {std::move(name), std::move(shape), type, std::move(make), ggml_bytes(type, n)});
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::string head = "GGUF";
  put(head, kVersion);
  put(head, uint64_t{tensors_.size()});
  put(head, n_values_);
  head += values_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(head, tensor.name);
    put(head, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      put(head, static_cast<uint64_t>(*size));
    }
    put(head, static_cast<uint32_t>(tensor.type));
    put(head, offset);
    offset += tensor.bytes + padding_after(tensor.bytes);
  }
  head.append(padding_after(head.size()), '\0');

  FileWriter file(temporary_sibling(path));
  file.write(head);
  for (const Tensor& tensor : tensors_) {
    const std::string bytes = tensor.make();
    if (bytes.size() != tensor.bytes) {
      throw std::logic_error(fmt::format("GgufWriter: {} bytes for the tensor {}, expected {}",
                                         bytes.size(),
                                         tensor.name,
                                         tensor.bytes));
    }
    file.write(bytes);
    file.write(std::string(padding_after(bytes.size()), '\0'));
  }
  file.finish_as(path);
}

uint16_t half_bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);   // not a number
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to infinity
  if (magnitude < 0x33000001U) return sign;                                    // rounds to zero
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  const uint32_t shift = exponent < -14 ? static_cast<uint32_t>(-exponent - 1) : 13U;
  uint32_t half = mantissa >> shift;
  const uint32_t rest = mantissa & ((1U << shift) - 1U);
  const uint32_t middle = 1U << (shift - 1U);
  if (rest > middle || (rest == middle && (half & 1U) != 0)) ++half;
  // The implied leading one adds itself to the exponent.
  if (exponent >= -14) half += static_cast<uint32_t>(exponent + 14) << 10;
  return static_cast<uint16_t>(sign | half);
}

std::string quantize_q8_0(std::span<const float> values) {
  std::string out;
  out.reserve(values.size() / kQ8BlockSize * (2 + kQ8BlockSize));
  for (size_t first = 0; first < values.size(); first += kQ8BlockSize) {
    const auto block = values.subspan(first, kQ8BlockSize);
    float largest = 0;
    for (const float v : block) largest = std::max(largest, std::fabs(v));
    const float scale = largest / 127.0F;
    const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
    put(out, half_bits(scale));
    for (const float v : block) {
      out.push_back(static_cast<char>(static_cast<int8_t>(std::round(v * inverse))));
    }
  }
  return out;
}

}  // namespace tril
