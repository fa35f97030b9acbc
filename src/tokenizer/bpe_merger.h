#pragma once
// Applies merges to one piece of text.

#include <bit>
#include <cstdint>
#include <limits>
#include <queue>
#include <string_view>
#include <vector>

#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {

/// (left id, right id) -> (rank, result): open addressing, at most half full.
class PairTable {
 public:
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
  struct Found {
    uint32_t rank = kNoRank;
    int32_t result = -1;
  };

  PairTable() : PairTable(std::vector<BpeMerge>()) {}
  explicit PairTable(const std::vector<BpeMerge>& merges);

  /// Of a pair that comes twice, the later rank counts (as in Hugging Face's `tokenizers`).
  void add(const BpeMerge& merge, uint32_t rank);

  Found find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t i = slot_of(key);; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.key == key) return slot.found;
      if (slot.key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Found found;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  }

  void resize(size_t n_slots);

  std::vector<Slot> slots_;
  size_t n_used_ = 0;
  size_t mask_ = 0;
  int shift_ = 0;
};

/// Working memory of merge_piece, kept between calls.
struct MergeScratch {
  struct Node {
    int32_t id;
    uint32_t rank;  // of the pair that begins here
    int32_t previous;
    int32_t next;
  };
  std::vector<Node> nodes;
  std::vector<uint64_t> heap;  // rank << 32 | position
};

/// Appends the ids of one piece (at most kMaxPieceBytes). Of equal ranks the leftmost pair merges
/// first. Short pieces take quadratic time in a few cache lines, long ones n log n with a heap.
void merge_piece(std::string_view piece,
                 const int32_t* byte_ids,
                 const PairTable& pairs,
                 MergeScratch& scratch,
                 std::vector<int32_t>& out);

}  // namespace tril
