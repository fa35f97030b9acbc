#include "pair_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tril {
namespace {

size_t slot_of(PairKey key, size_t n_slots) {
  return static_cast<size_t>((key * 0x9E3779B97F4A7C15ULL) >> (64 - std::countr_zero(n_slots)));
}

}  // namespace

PairIndex::Entry& PairIndex::at(PairKey key) {
  if (2 * (entries_.size() + 1) > table_.size()) grow();
  const size_t mask = table_.size() - 1;
  size_t i = slot_of(key, table_.size());
  while (table_[i] != kEmpty && entries_[table_[i]].key != key) i = (i + 1) & mask;
  if (table_[i] == kEmpty) {
    table_[i] = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back().key = key;
  }
  index_of_last_ = table_[i];
  return entries_[index_of_last_];
}

void PairIndex::grow() {
  table_.assign(std::max<size_t>(1024, 2 * table_.size()), kEmpty);
  for (uint32_t index = 0; index < entries_.size(); ++index) {
    size_t i = slot_of(entries_[index].key, table_.size());
    while (table_[i] != kEmpty) i = (i + 1) & (table_.size() - 1);
    table_[i] = index;
  }
}

void PairIndex::requeue() {
  for (const uint32_t index : changed_) {
    Entry& entry = entries_[index];
    entry.is_queued = false;
    if (entry.count > 0) queue_.push({entry.count, entry.key, index});
  }
  changed_.clear();
}

PairIndex::Entry* PairIndex::next(int64_t min_count) {
  while (!queue_.empty()) {
    const Candidate best = queue_.top();
    if (best.count < min_count) return nullptr;
    queue_.pop();
    Entry& entry = entries_[best.index];
    if (entry.count == best.count) return &entry;
    // Counts only fall without a new candidate being queued: this one goes back to its place.
    if (entry.count > 0 && entry.count < best.count) {
      queue_.push({entry.count, entry.key, best.index});
    }
  }
  return nullptr;
}

}  // namespace tril
