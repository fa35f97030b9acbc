#pragma once
// Counts how often each piece of text occurs, in memory that the distinct pieces take.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "piece_cache.h"

namespace tril {

/// Two open-addressing tables: short pieces are their own keys, long ones stand one after another
/// in a store.
class PieceCounter {
 public:
  /// Beyond `max_bytes`, long pieces are thinned out by their hash: see BpeTrainOptions.
  explicit PieceCounter(int64_t max_bytes);

  /// `may_overread`: 16 bytes can be read at the piece's front.
  void add(std::string_view piece, bool may_overread) {
    if (piece.size() > kMaxKeyBytes) return add_long(piece, 1);
    add_short(piece_key(piece, may_overread), 1);
  }
  /// Adds the counts of another counter, which is emptied.
  void merge(PieceCounter& other);

  /// Calls `take(piece, count)` for each; thinned pieces with the count they stand for. The pieces
  /// stay where they are until the counter changes.
  template <typename Take>
  void for_each(Take&& take) const {
    for (const Short& slot : shorts_) {
      if (slot.count == 0) continue;
      const size_t n = size_of(slot.key);
      take(std::string_view(reinterpret_cast<const char*>(&slot.key), n), scaled(slot.count, n));
    }
    for (const Long& slot : longs_) {
      if (slot.count == 0) continue;
      take(std::string_view(store_).substr(slot.begin, slot.n_bytes),
           scaled(slot.count, slot.n_bytes));
    }
  }

  int64_t distinct() const { return static_cast<int64_t>(n_shorts_ + n_longs_); }
  /// Of the distinct pieces' bytes.
  int64_t distinct_bytes() const { return piece_bytes_; }
  int64_t thinning() const { return int64_t{1} << thin_log2_; }

 private:
  static constexpr size_t kAlwaysKeptBytes = 8;
  static constexpr int64_t kEntryBytes = 48;  // an entry at half load

  struct Short {
    PieceKey key;
    int64_t count = 0;  // 0: empty
  };
  struct Long {
    uint64_t hash = 0;
    uint64_t begin = 0;
    uint32_t n_bytes = 0;
    int64_t count = 0;  // 0: empty
  };

  static size_t size_of(const PieceKey& key) { return key_size(key); }
  static uint64_t hash_of(const PieceKey& key);
  static uint64_t hash_of(std::string_view piece);
  int64_t scaled(int64_t count, size_t n_bytes) const {
    return n_bytes <= kAlwaysKeptBytes ? count : count << thin_log2_;
  }
  bool is_kept(uint64_t hash, size_t n_bytes) const {
    return n_bytes <= kAlwaysKeptBytes || (hash & ((uint64_t{1} << thin_log2_) - 1)) == 0;
  }

  void add_short(const PieceKey& key, int64_t count);
  void add_long(std::string_view piece, int64_t count);
  void note_new(size_t n_bytes);
  void grow_shorts();
  void grow_longs();
  void thin();

  int64_t max_bytes_;
  std::vector<Short> shorts_;
  std::vector<Long> longs_;
  std::string store_;
  size_t n_shorts_ = 0;
  size_t n_longs_ = 0;
  int64_t piece_bytes_ = 0;
  int thin_log2_ = 0;
};

}  // namespace tril
