#include "bpe_merger.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

namespace tril {
namespace {

constexpr uint32_t kNoRank = PairTable::kNoRank;
constexpr size_t kShortPiece = 48;  // bytes; measured: the heap wins from about here on

void merge_short(std::string_view piece,
                 const int32_t* byte_ids,
                 const PairTable& pairs,
                 std::vector<int32_t>& out) {
  std::array<int32_t, kShortPiece> ids;
  std::array<PairTable::Found, kShortPiece> merges;  // of ids[i] and ids[i + 1]
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) ids[i] = byte_ids[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = pairs.find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    ids[best] = merges[best].result;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      merges[i - 1] = merges[i];
    }
    --n;
    if (best > 0) merges[best - 1] = pairs.find(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = pairs.find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
}

void merge_long(std::string_view piece,
                const int32_t* byte_ids,
                const PairTable& pairs,
                MergeScratch& scratch,
                std::vector<int32_t>& out) {
  auto& nodes = scratch.nodes;
  auto& heap = scratch.heap;
  const auto n = static_cast<int32_t>(piece.size());
  nodes.resize(piece.size());
  heap.clear();
  const auto at = [&nodes](int32_t i) -> MergeScratch::Node& {
    return nodes[static_cast<size_t>(i)];
  };
  const auto pair_at = [&](int32_t i) { return pairs.find(at(i).id, at(at(i).next).id); };
  const auto entry = [](uint32_t rank, int32_t i) {
    return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(i);
  };
  for (int32_t i = 0; i < n; ++i) {
    at(i) = {byte_ids[static_cast<uint8_t>(piece[static_cast<size_t>(i)])],
             kNoRank,
             i - 1,
             i + 1 < n ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < n; ++i) {
    at(i).rank = pair_at(i).rank;
    if (at(i).rank != kNoRank) heap.push_back(entry(at(i).rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto update = [&](int32_t i) {
    const uint32_t rank = at(i).next < 0 ? kNoRank : pair_at(i).rank;
    at(i).rank = rank;
    if (rank == kNoRank) return;
    heap.push_back(entry(rank, i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t best = heap.back();
    heap.pop_back();
    const auto i = static_cast<int32_t>(best & 0xFFFFFFFFU);
    if (at(i).rank != best >> 32) continue;  // one of the two has merged otherwise since
    const int32_t gone = at(i).next;
    at(i).id = pair_at(i).result;
    at(i).next = at(gone).next;
    at(gone).rank = kNoRank;
    if (at(i).next >= 0) at(at(i).next).previous = i;
    update(i);
    if (at(i).previous >= 0) update(at(i).previous);
  }
  for (int32_t i = 0; i >= 0; i = at(i).next) out.push_back(at(i).id);
  if (nodes.capacity() > (size_t{1} << 20)) scratch = {};  // a giant piece's memory is not kept
}

}  // namespace

PairTable::PairTable(const std::vector<BpeMerge>& merges) {
  resize(std::bit_ceil(2 * merges.size() + 2));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    add(merges[rank], static_cast<uint32_t>(rank));
  }
}

void PairTable::resize(size_t n_slots) {
  const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(n_slots));
  mask_ = n_slots - 1;
  shift_ = 64 - std::countr_zero(n_slots);
  for (const Slot& slot : before) {
    if (slot.key == kEmpty) continue;
    size_t i = slot_of(slot.key);
    while (slots_[i].key != kEmpty) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
}

void PairTable::add(const BpeMerge& merge, uint32_t rank) {
  if (2 * (n_used_ + 1) > slots_.size()) resize(2 * slots_.size());
  const uint64_t key = key_of(merge.left, merge.right);
  size_t i = slot_of(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++n_used_;
  slots_[i] = {key, {rank, merge.result}};
}

void merge_piece(std::string_view piece,
                 const int32_t* byte_ids,
                 const PairTable& pairs,
                 MergeScratch& scratch,
                 std::vector<int32_t>& out) {
  if (piece.size() <= kShortPiece) {
    merge_short(piece, byte_ids, pairs, out);
  } else {
    merge_long(piece, byte_ids, pairs, scratch, out);
  }
}

}  // namespace tril
