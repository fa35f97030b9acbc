#pragma once
// Where each pair of neighbouring tokens stands in the distinct pieces, and how often it occurs in
// the text.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

namespace tril {

/// Two ids in one word, so that smaller words are smaller pairs.
using PairKey = uint64_t;
constexpr PairKey pair_key(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}

/// The tokens of all distinct pieces, in place: a token of n bytes takes n slots. Its id stands in
/// the first and the last of them, so that both neighbours are found by looking next to it.
class TokenRow {
 public:
  static constexpr uint32_t kEdge = std::numeric_limits<uint32_t>::max();  // between pieces
  static constexpr uint32_t kInside =
      std::numeric_limits<uint32_t>::max() - 1;  // of a merged token

  std::vector<uint32_t> slots;   // begins and ends with kEdge
  std::vector<uint32_t> length;  // bytes, by id
};

/// Pairs with their counts and places, and which one comes next.
class PairIndex {
 public:
  struct Entry {
    PairKey key = 0;
    int64_t count = 0;
    bool is_queued = false;        // changed since the last call of requeue()
    std::vector<uint32_t> places;  // first slots of the left token; some may be out of date
  };

  /// The entry of a pair; made when new. The reference holds until the next call.
  Entry& at(PairKey key);
  /// Adds to a pair's count; requeue() must follow before next().
  void change(PairKey key, int64_t count) {
    Entry& entry = at(key);
    entry.count += count;
    if (!entry.is_queued && count > 0) {
      entry.is_queued = true;
      changed_.push_back(index_of_last_);
    }
  }
  void add_place(uint32_t place) { entries_[index_of_last_].places.push_back(place); }

  /// Takes note of the counts that have grown.
  void requeue();
  /// The most frequent pair, of equals the smallest; null when none has at least `min_count`.
  Entry* next(int64_t min_count);
  size_t size() const { return entries_.size(); }

 private:
  struct Candidate {
    int64_t count;
    PairKey key;
    uint32_t index;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };
  static constexpr uint32_t kEmpty = std::numeric_limits<uint32_t>::max();
  void grow();

  std::vector<Entry> entries_;
  std::vector<uint32_t> table_;  // hash -> index of an entry
  std::vector<uint32_t> changed_;
  std::priority_queue<Candidate> queue_;
  uint32_t index_of_last_ = 0;
};

}  // namespace tril
