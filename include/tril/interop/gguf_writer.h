#pragma once
// The GGUF file format, version 3: keys and values, a table of tensors, aligned data. Writing only.
// Source: the specification in ggml-org/ggml (docs/gguf.md). No Torch here.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

/// Element types, with the numbers of the format.
enum class GgmlType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

/// Bytes of `n` elements; q8_0 needs a multiple of kQ8BlockSize.
uint64_t ggml_bytes(GgmlType type, uint64_t n);

inline constexpr int64_t kQ8BlockSize = 32;

/// Collects keys and tensors, then writes all at once.
class GgufWriter {
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);

  /// `shape` in the order of the mathematics, (rows, columns); the format writes it reversed.
  /// `make` gives the bytes when they are written, so that one tensor at a time is in memory.
  void add_tensor(std::string name,
                  std::vector<int64_t> shape,
                  GgmlType type,
                  std::function<std::string()> make);

  /// Writes beside `path` and renames. ResourceError when the disk is full.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    GgmlType type;
    std::function<std::string()> make;
    uint64_t bytes;
  };
  void begin(std::string_view key, uint32_t type);

  std::string values_;
  uint64_t n_values_ = 0;
  std::vector<Tensor> tensors_;
};

/// Blocks of 32: one scale (half precision, the largest magnitude / 127) and 32 signed bytes.
/// `values.size()` is a multiple of kQ8BlockSize.
std::string quantize_q8_0(std::span<const float> values);

/// The bits of the nearest half-precision number (ties to even); infinity beyond 65504.
uint16_t half_bits(float value);

}  // namespace tril
