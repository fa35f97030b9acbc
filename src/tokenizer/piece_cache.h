#pragma once
// Remembers the ids of pieces seen before: in running text 98 of 100 pieces are repetitions.

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "huge_page_allocator.h"

namespace tril {

/// A piece of up to 15 bytes as two words: its bytes, zeros, and its size in the last byte.
struct alignas(16) PieceKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

inline constexpr size_t kMaxKeyBytes = 15;

namespace detail {
/// The key's mask for a piece of n bytes begins n bytes before the middle.
inline constexpr unsigned char kKeyMasks[32] = {
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
/// Of the last byte in memory, which no piece reaches.
inline constexpr int kSizeShift = std::endian::native == std::endian::little ? 56 : 0;
}  // namespace detail

/// Of a piece of 1 to 15 bytes. `may_overread`: 16 bytes can be read at the piece's front.
inline PieceKey piece_key(std::string_view piece, bool may_overread) {
  PieceKey key;
  if (may_overread) {
    PieceKey mask;
    std::memcpy(&key, piece.data(), sizeof(key));
    std::memcpy(&mask, detail::kKeyMasks + 16 - piece.size(), sizeof(mask));
    key.low &= mask.low;
    key.high &= mask.high;
  } else {
    std::memcpy(&key, piece.data(), piece.size());
  }
  key.high |= static_cast<uint64_t>(piece.size()) << detail::kSizeShift;
  return key;
}

/// Bytes of the piece.
inline size_t key_size(const PieceKey& key) {
  return static_cast<size_t>(key.high >> detail::kSizeShift & 0xFF);
}

/// Mixes a key; the upper half is good for tables.
inline uint64_t key_hash(const PieceKey& key) {
  return (key.low ^ (key.high * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
}

/// Short pieces stand in a hash table whose buckets are cache lines of two entries; the table
/// doubles as it fills. Long ones stand in a table of their own. More than kMaxIds ids stand in a
/// store. When something is full, everything is forgotten.
class PieceCache {
 public:
  static constexpr uint32_t kMaxIds = 3;
  /// The ids of a short piece.
  struct Ids {
    int32_t ids[kMaxIds] = {};  // of more than kMaxIds: where they begin in the store
    uint32_t n_ids = 0;         // 0: no piece
  };
  struct alignas(64) Line {
    PieceKey keys[2];  // all zero: empty (a key has a size)
    Ids ids[2];
  };

  PieceCache() : longs_(size_t{1} << kLogLongs), ids_(kMaxKeyBytes + 1) { clear(kFirstLines); }

  /// The bucket where to begin looking for a piece.
  const Line* line_of(const PieceKey& key) const {
    return &lines_[key_hash(key) >> 32 & (lines_.size() - 1)];
  }
  /// The bucket after this one.
  const Line* next(const Line* line) const {
    return line == &lines_.back() ? lines_.data() : line + 1;
  }
  /// The ids of this piece, or null.
  const Ids* find(const PieceKey& key) const {
    for (const Line* line = line_of(key);; line = next(line)) {
      // Which of the two it is cannot be foretold: no branch on it.
      const size_t which = differ(line->keys[0], key) ? 1 : 0;
      if (!differ(line->keys[which], key)) return &line->ids[which];
      if (line->ids[1].n_ids == 0) return nullptr;  // not full: it would be here
    }
  }
  /// The ids of an entry with more than kMaxIds; kMaxKeyBytes + 1 can be read there.
  std::span<const int32_t> stored_ids(const Ids& entry) const {
    return std::span(ids_).subspan(static_cast<size_t>(entry.ids[0]), entry.n_ids);
  }
  void insert(const PieceKey& key, std::span<const int32_t> ids);

  /// Pieces of more than kMaxKeyBytes, and up to kMaxLongBytes. No ids: not there.
  static constexpr size_t kMaxLongBytes = 256;
  std::span<const int32_t> find_long(std::string_view piece) const;
  void insert_long(std::string_view piece, std::span<const int32_t> ids);

  /// The table, for code that looks into it by itself: a power of two of lines.
  std::span<const Line> lines() const { return lines_; }

 private:
  static constexpr size_t kFirstLines = size_t{1} << 12;  // 256 KB
  static constexpr size_t kMaxLines = size_t{1} << 18;    // 16 MB
  static constexpr int kLogLongs = 14;
  static constexpr size_t kMaxStored = size_t{1} << 20;  // ids, and bytes of long pieces

  struct Long {
    uint64_t hash = 0;
    uint32_t bytes_begin = 0;
    uint32_t n_bytes = 0;
    uint32_t ids_begin = 0;
    uint32_t n_ids = 0;  // 0: empty
  };
  static bool differ(const PieceKey& a, const PieceKey& b) {
    return ((a.low ^ b.low) | (a.high ^ b.high)) != 0;
  }
  void clear(size_t n_lines);
  void place(const PieceKey& key, const Ids& ids);
  uint32_t store(std::span<const int32_t> ids);
  void make_room(size_t n_ids, size_t n_bytes);

  std::vector<Line, HugePageAllocator<Line>> lines_;
  size_t n_entries_ = 0;
  std::vector<Long> longs_;
  std::vector<int32_t> ids_;  // and kMaxKeyBytes + 1 numbers that are none
  std::string bytes_;
};

}  // namespace tril
