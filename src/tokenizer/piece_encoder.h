#pragma once
// The inner loop of encoding: cuts a text into pieces and looks their ids up.

#include <cstdint>
#include <string_view>
#include <vector>

#include "piece_cache.h"

namespace tril {

/// What answers where the cache does not: appends the ids of a piece, and may change the cache.
class PieceFallback {
 public:
  virtual ~PieceFallback() = default;
  virtual void encode(std::string_view piece, std::vector<int32_t>& out) = 0;
};

/// Appends the ids of all pieces of `text`. The instructions of the processor decide how: plain C++
/// everywhere, AVX2 where it is there; the ids are the same.
void encode_pieces(std::string_view text,
                   const PieceCache& cache,
                   PieceFallback& fallback,
                   std::vector<int32_t>& out);

/// The two ways, for tests and measurements.
void encode_pieces_plainly(std::string_view text,
                           const PieceCache& cache,
                           PieceFallback& fallback,
                           std::vector<int32_t>& out);
bool has_encode_pieces_avx2();
void encode_pieces_avx2(std::string_view text,
                        const PieceCache& cache,
                        PieceFallback& fallback,
                        std::vector<int32_t>& out);

}  // namespace tril
