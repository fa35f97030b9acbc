// encode_pieces for x86 processors with AVX2 and BMI. One loop does it all for ASCII: 64 bytes
// become bits of where pieces begin; of each piece the key is made in one register, and both keys
// of its cache line are compared at once. Measured on one core of an EPYC at 2.5 GHz,
// tinyshakespeare: see docs/tokenizer.md.

#include "gpt2_split.h"
#include "piece_encoder.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <span>

#define TRIL_AVX2 __attribute__((target("avx2,bmi,bmi2,sse4.2")))

namespace tril {
namespace {

/// The size of a piece where a key has it, by size.
struct alignas(16) SizeTags {
  PieceKey of[kMaxKeyBytes + 1];
  constexpr SizeTags() : of() {
    for (size_t n = 0; n <= kMaxKeyBytes; ++n) of[n].high = static_cast<uint64_t>(n) << 56;
  }
};
constexpr SizeTags kSizeTags;

TRIL_AVX2 inline uint64_t bits_of(__m256i low, __m256i high) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
         static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high))) << 32;
}

/// Bytes in [first, first + n): moved down so that a signed comparison finds them.
TRIL_AVX2 inline __m256i in_range(__m256i bytes, int first, int n) {
  const __m256i moved = _mm256_add_epi8(bytes, _mm256_set1_epi8(static_cast<char>(0x80 - first)));
  return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(n - 0x80)), moved);
}

TRIL_AVX2 inline detail::ClassBits class_bits_avx2(const uint8_t* p) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  const __m256i case_bit = _mm256_set1_epi8(0x20);
  const __m256i blank_a = _mm256_cmpeq_epi8(a, case_bit);  // 0x20 is the space, too
  const __m256i blank_b = _mm256_cmpeq_epi8(b, case_bit);
  const __m256i apostrophe = _mm256_set1_epi8('\'');
  detail::ClassBits bits;
  bits.wide = bits_of(a, b);
  bits.letters = bits_of(in_range(_mm256_or_si256(a, case_bit), 'a', 26),
                         in_range(_mm256_or_si256(b, case_bit), 'a', 26));
  bits.numbers = bits_of(in_range(a, '0', 10), in_range(b, '0', 10));
  bits.blank = bits_of(blank_a, blank_b);
  bits.spaces = bits.blank | bits_of(in_range(a, 9, 5), in_range(b, 9, 5));
  bits.apostrophes = bits_of(_mm256_cmpeq_epi8(a, apostrophe), _mm256_cmpeq_epi8(b, apostrophe));
  return bits;
}

/// The ids of a piece that is in the cache, but not simply in its line; empty: it is not.
std::span<const int32_t> find_otherwise(std::string_view piece, const PieceCache& cache) {
  if (piece.size() > kMaxKeyBytes) return cache.find_long(piece);
  const PieceCache::Ids* found = cache.find(piece_key(piece, /*may_overread=*/false));
  if (found == nullptr) return {};
  if (found->n_ids > PieceCache::kMaxIds) return cache.stored_ids(*found);
  return {found->ids, found->n_ids};
}

}  // namespace

bool has_encode_pieces_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("sse4.2");
}

TRIL_AVX2 void encode_pieces_avx2(std::string_view text,
                                  const PieceCache& cache,
                                  PieceFallback& fallback,
                                  std::vector<int32_t>& out) {
  constexpr size_t kBlock = Gpt2Splitter::kBlock;
  constexpr uint32_t kMaxIds = PieceCache::kMaxIds;
  std::array<PieceKey, kBlock> keys;
  std::array<const PieceCache::Line*, kBlock> places;
  std::array<const char*, kBlock> ends;
  // A piece has no more ids than bytes, so there is room for those of one block; ids are copied 16
  // at a time.
  std::array<int32_t, 1024> ids;
  int32_t* next_id = ids.data();
  int32_t* const full = ids.data() + ids.size() - kBlock - 16;
  const char* const text_end = text.data() + text.size();
  std::span<const PieceCache::Line> lines = cache.lines();

  const auto flush = [&] {
    out.insert(out.end(), ids.data(), next_id);
    next_id = ids.data();
  };
  // For a piece that is long, new, or in the next line.
  const auto encode_otherwise = [&](std::string_view piece) {
    const auto found = find_otherwise(piece, cache);
    if (!found.empty() && piece.size() <= kBlock) {
      next_id = std::copy(found.begin(), found.end(), next_id);
      return;
    }
    flush();
    if (!found.empty()) {
      out.insert(out.end(), found.begin(), found.end());
    } else {
      fallback.encode(piece, out);
      lines = cache.lines();  // it may have grown
    }
  };

  Gpt2Splitter splitter(text);
  while (true) {
    const char* begin = splitter.position();
    if (begin == text_end) break;
    const auto* const block = reinterpret_cast<const uint8_t*>(begin);
    uint64_t begins = 0;
    if (splitter.may_be_block()) begins = splitter.begins_in_block(class_bits_avx2(block));
    if (next_id > full) flush();
    if (begins == 0) {
      const std::string_view piece = splitter.next();
      const PieceCache::Ids* found =
          piece.size() > kMaxKeyBytes ? nullptr
                                      : cache.find(piece_key(piece, text_end - piece.data() >= 16));
      if (found != nullptr && found->n_ids <= kMaxIds) {
        std::memcpy(next_id, found, sizeof(*found));
        next_id += found->n_ids;
      } else {
        encode_otherwise(piece);
      }
      continue;
    }
    // First the keys of the block's pieces, and where each is in the cache, which comes near
    // meanwhile; then their ids.
    size_t n_pieces = 0;
    for (const char* piece = begin; begins != 0; ++n_pieces) {
      const char* const end = reinterpret_cast<const char*>(block) + _tzcnt_u64(begins);
      begins = _blsr_u64(begins);
      const auto n_bytes = static_cast<size_t>(end - piece);
      ends[n_pieces] = end;
      __m128i key = _mm_setzero_si128();  // of a long piece: never a short one's
      if (n_bytes <= kMaxKeyBytes) [[likely]] {
        key = _mm_and_si128(
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(piece)),
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(detail::kKeyMasks + 16 - n_bytes)));
        key = _mm_or_si128(
            key, _mm_load_si128(reinterpret_cast<const __m128i*>(&kSizeTags.of[n_bytes])));
      }
      piece = end;
      _mm_store_si128(reinterpret_cast<__m128i*>(&keys[n_pieces]), key);
      PieceKey words;
      words.low = static_cast<uint64_t>(_mm_cvtsi128_si64(key));
      words.high = static_cast<uint64_t>(_mm_extract_epi64(key, 1));
      places[n_pieces] = &lines[key_hash(words) >> 32 & (lines.size() - 1)];
      __builtin_prefetch(places[n_pieces]);
    }
    for (size_t i = 0; i < n_pieces; ++i) {
      const PieceCache::Line& line = *places[i];
      const __m256i equal = _mm256_cmpeq_epi64(
          _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(&keys[i]))),
          _mm256_load_si256(reinterpret_cast<const __m256i*>(line.keys)));
      // Two bits for each key, both set where it is equal. Which of the two it is cannot be
      // foretold, so no branch may hang on it: bit 0 becomes the first, bit 2 the second.
      const auto words_equal =
          static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(equal)));
      const unsigned keys_equal = words_equal & (words_equal >> 1) & 5;
      const PieceCache::Ids& found = line.ids[keys_equal >> 2];
      // An empty place equals the key of a long piece, and has no ids.
      if (keys_equal != 0 && found.n_ids - 1 < kMaxIds) [[likely]] {
        std::memcpy(next_id, &found, sizeof(found));
        next_id += found.n_ids;
        continue;
      }
      if (keys_equal != 0 && found.n_ids != 0) {
        std::memcpy(next_id, cache.stored_ids(found).data(), 16 * sizeof(int32_t));
        next_id += found.n_ids;
        continue;
      }
      const char* const piece = i == 0 ? begin : ends[i - 1];
      const auto* const lines_before = lines.data();
      encode_otherwise({piece, static_cast<size_t>(ends[i] - piece)});
      if (lines.data() == lines_before) continue;
      // It has grown: the places are gone.
      for (size_t k = i + 1; k < n_pieces; ++k) places[k] = lines.data() + (lines.size() - 1);
    }
    begin = ends[n_pieces - 1];
    splitter.go_to(begin);
  }
  out.insert(out.end(), ids.data(), next_id);
}

}  // namespace tril

#else

namespace tril {

bool has_encode_pieces_avx2() {
  return false;
}

void encode_pieces_avx2(std::string_view text,
                        const PieceCache& cache,
                        PieceFallback& fallback,
                        std::vector<int32_t>& out) {
  encode_pieces_plainly(text, cache, fallback, out);
}

}  // namespace tril

#endif
