// encode_pieces for x86 processors with AVX2 and BMI. One loop does it all for ASCII: 64 bytes
// become bits of where pieces begin; of each piece the key is made in one register, and both keys
// of its cache line are compared at once. Measured on one core of an EPYC at 2.5 GHz,
// tinyshakespeare: see docs/tokenizer.md.

#include "gpt2_split.h"
#include "piece_encoder.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include <array>

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
  std::array<int32_t, 1024> ids;  // an entry is copied as a whole, so 4 for the last
  int32_t* next_id = ids.data();
  int32_t* const full = ids.data() + ids.size() - kBlock * kMaxIds - 4;
  const char* const text_end = text.data() + text.size();
  const PieceCache::Line* lines = cache.lines().data();
  size_t mask = cache.lines().size() - 1;

  // What is not simply in its line of the cache: long, new, of many ids, or in the next line.
  const auto encode_otherwise = [&](std::string_view piece) {
    const PieceCache::Ids* found =
        piece.size() > kMaxKeyBytes ? nullptr : cache.find(piece_key(piece, false));
    out.insert(out.end(), ids.data(), next_id);
    next_id = ids.data();
    if (found == nullptr) {
      fallback.encode(piece, out);
      lines = cache.lines().data();
      mask = cache.lines().size() - 1;
    } else if (found->n_ids > kMaxIds) {
      const auto stored = cache.stored_ids(*found);
      out.insert(out.end(), stored.begin(), stored.end());
    } else {
      out.insert(out.end(), found->ids, found->ids + found->n_ids);
    }
  };

  Gpt2Splitter splitter(text);
  while (true) {
    const char* begin = splitter.position();
    if (begin == text_end) break;
    const auto* const block = reinterpret_cast<const uint8_t*>(begin);
    uint64_t begins = 0;
    if (splitter.may_be_block()) begins = splitter.begins_in_block(class_bits_avx2(block));
    if (begins == 0) {
      encode_otherwise(splitter.next());
      continue;
    }
    if (next_id > full) {
      out.insert(out.end(), ids.data(), next_id);
      next_id = ids.data();
    }
    do {
      const char* const end = reinterpret_cast<const char*>(block) + _tzcnt_u64(begins);
      begins = _blsr_u64(begins);
      const auto n_bytes = static_cast<size_t>(end - begin);
      const char* const piece = begin;
      begin = end;
      if (n_bytes > kMaxKeyBytes) [[unlikely]] {
        encode_otherwise({piece, n_bytes});
        continue;
      }
      __m128i key = _mm_loadu_si128(reinterpret_cast<const __m128i*>(piece));
      key = _mm_and_si128(
          key, _mm_loadu_si128(reinterpret_cast<const __m128i*>(detail::kKeyMasks + 16 - n_bytes)));
      key = _mm_or_si128(key,
                         _mm_load_si128(reinterpret_cast<const __m128i*>(&kSizeTags.of[n_bytes])));
      PieceKey words;
      words.low = static_cast<uint64_t>(_mm_cvtsi128_si64(key));
      words.high = static_cast<uint64_t>(_mm_extract_epi64(key, 1));
      const PieceCache::Line& line = lines[key_hash(words) >> 32 & mask];
      const __m256i equal =
          _mm256_cmpeq_epi64(_mm256_broadcastsi128_si256(key),
                             _mm256_load_si256(reinterpret_cast<const __m256i*>(line.keys)));
      // Two bits for each key: 3 is the first, 12 the second (an empty one is never equal).
      const int which = _mm256_movemask_pd(_mm256_castsi256_pd(equal));
      const bool is_second = (which & 12) == 12;
      const PieceCache::Ids& found = line.ids[is_second ? 1 : 0];
      if ((!is_second && (which & 3) != 3) || found.n_ids > kMaxIds) [[unlikely]] {
        encode_otherwise({piece, n_bytes});
        continue;
      }
      std::memcpy(next_id, &found, sizeof(found));
      next_id += found.n_ids;
    } while (begins != 0);
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
