#pragma once
// TensorBoard event files: framed records (length and data, each with a masked CRC-32C), each an
// Event message of protocol buffers. Only scalars; they are float32 in this format.
// Source: the descriptions of TFRecord and of event.proto in the TensorFlow project.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/append_file.h"

namespace tril {

/// CRC-32C (Castagnoli), as TFRecord uses it before masking.
uint32_t crc32c(std::string_view bytes);

struct TensorboardScalar {
  std::string tag;
  float value = 0;
};

struct TensorboardEvent {
  double wall_seconds = 0;  ///< since 1970
  int64_t step = 0;
  std::vector<TensorboardScalar> scalars = {};
};

/// One framed record.
std::string encode_tensorboard_event(const TensorboardEvent& event);

/// The first record of every event file.
std::string tensorboard_file_header(double wall_seconds);

/// The events at the front of a file, up to the first record that is broken or cut short. The
/// header counts as an event without scalars. `good_bytes`, if given: where each event ends.
std::vector<TensorboardEvent> decode_tensorboard(std::string_view bytes,
                                                 std::vector<size_t>* good_bytes = nullptr);

/// Appends to an event file; cut back on resume.
class TensorboardWriter {
 public:
  /// Keeps the events up to `last_step` and removes the rest (a broken last one too).
  /// A file that cannot be written is not an error here: write() returns false.
  TensorboardWriter(const std::filesystem::path& path, int64_t last_step);

  /// Appends. False when it could not be written.
  bool write(const TensorboardEvent& event);

 private:
  std::optional<AppendFile> file_;
};

}  // namespace tril
