#include "tril/plot/base64.h"

#include <cstdint>

namespace tril {

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) {
      const uint32_t byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0;
      word = (word << 8) | byte;
    }
    for (size_t k = 0; k < 4; ++k) {
      const bool is_padding = i + k > bytes.size();
      out += is_padding ? '=' : kDigits[(word >> (18 - 6 * k)) & 63];
    }
  }
  return out;
}

}  // namespace tril
