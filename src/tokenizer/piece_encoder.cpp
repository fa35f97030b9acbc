#include "piece_encoder.h"

#include <array>

#include "gpt2_split.h"

namespace tril {

void encode_pieces_plainly(std::string_view text,
                           const PieceCache& cache,
                           PieceFallback& fallback,
                           std::vector<int32_t>& out) {
  std::array<size_t, Gpt2Splitter::kMaxEnds> ends;
  // Every entry is copied as a whole: 1 for the number after the ids of the last.
  std::array<int32_t, Gpt2Splitter::kMaxEnds * PieceCache::kMaxIds + 1> ids;
  const char* const text_end = text.data() + text.size();
  Gpt2Splitter splitter(text);
  while (true) {
    const char* const begin = splitter.position();
    const size_t n_pieces = splitter.next_ends(ends);
    if (n_pieces == 0) return;
    const bool may_overread = text_end - splitter.position() >= 16;
    int32_t* next_id = ids.data();
    size_t at = 0;
    for (size_t i = 0; i < n_pieces; ++i) {
      const std::string_view piece(begin + at, ends[i] - at);
      at = ends[i];
      const PieceCache::Ids* found =
          piece.size() > kMaxKeyBytes ? nullptr : cache.find(piece_key(piece, may_overread));
      if (found != nullptr && found->n_ids <= PieceCache::kMaxIds) {
        std::memcpy(next_id, found, sizeof(*found));
        next_id += found->n_ids;
        continue;
      }
      out.insert(out.end(), ids.data(), next_id);
      next_id = ids.data();
      if (found == nullptr) {
        fallback.encode(piece, out);
      } else {
        const auto stored = cache.stored_ids(*found);
        out.insert(out.end(), stored.begin(), stored.end());
      }
    }
    out.insert(out.end(), ids.data(), next_id);
  }
}

void encode_pieces(std::string_view text,
                   const PieceCache& cache,
                   PieceFallback& fallback,
                   std::vector<int32_t>& out) {
  static const bool has_avx2 = has_encode_pieces_avx2();
  if (has_avx2) return encode_pieces_avx2(text, cache, fallback, out);
  encode_pieces_plainly(text, cache, fallback, out);
}

}  // namespace tril
