#pragma once
// Compressed copies of small texts, for tests.

#include <stdexcept>
#include <string>
#include <string_view>

#if TRIL_HAS_ZLIB
#include <zlib.h>
#endif
#if TRIL_HAS_ZSTD
#include <zstd.h>
#endif

namespace tril::testing {

#if TRIL_HAS_ZLIB
/// One gzip member.
inline std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
#endif

#if TRIL_HAS_ZSTD
/// One zstd frame.
inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const size_t n = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(n) != 0U) throw std::runtime_error("ZSTD_compress");
  out.resize(n);
  return out;
}
#endif

}  // namespace tril::testing
