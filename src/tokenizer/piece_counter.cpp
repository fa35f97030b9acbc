#include "piece_counter.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL  // header-only: no library to link
#include <xxhash.h>

#include <limits>
#include <utility>

#include "tril/base/error.h"

namespace tril {
namespace {

constexpr size_t kFirstSlots = size_t{1} << 12;
constexpr int kMaxThinLog2 = 30;

}  // namespace

PieceCounter::PieceCounter(int64_t max_bytes)
    : max_bytes_(max_bytes), shorts_(kFirstSlots), longs_(kFirstSlots) {}

uint64_t PieceCounter::hash_of(const PieceKey& key) {
  const uint64_t h = key_hash(key);
  return (h ^ h >> 32) * 0xD6E8FEB86659FD93ULL;
}

uint64_t PieceCounter::hash_of(std::string_view piece) {
  return XXH3_64bits(piece.data(), piece.size());
}

void PieceCounter::add_short(const PieceKey& key, int64_t count) {
  const uint64_t hash = hash_of(key);
  if (thin_log2_ > 0 && !is_kept(hash, size_of(key))) return;
  const size_t mask = shorts_.size() - 1;
  size_t i = static_cast<size_t>(hash >> 32) & mask;
  while (shorts_[i].count != 0) {
    if (shorts_[i].key.low == key.low && shorts_[i].key.high == key.high) {
      shorts_[i].count += count;
      return;
    }
    i = (i + 1) & mask;
  }
  shorts_[i] = {key, count};
  ++n_shorts_;
  if (2 * n_shorts_ > shorts_.size()) grow_shorts();
  note_new(size_of(key));
}

void PieceCounter::add_long(std::string_view piece, int64_t count) {
  const uint64_t hash = hash_of(piece);
  if (thin_log2_ > 0 && !is_kept(hash, piece.size())) return;
  const size_t mask = longs_.size() - 1;
  size_t i = static_cast<size_t>(hash >> 32) & mask;
  while (longs_[i].count != 0) {
    if (longs_[i].hash == hash &&
        std::string_view(store_).substr(longs_[i].begin, longs_[i].n_bytes) == piece) {
      longs_[i].count += count;
      return;
    }
    i = (i + 1) & mask;
  }
  longs_[i] = {hash, store_.size(), static_cast<uint32_t>(piece.size()), count};
  store_ += piece;
  ++n_longs_;
  if (2 * n_longs_ > longs_.size()) grow_longs();
  note_new(piece.size());
}

/// The size that thinning goes by follows from the set of pieces alone, not from the tables'
/// capacity: so it does not matter in which order, or by how many threads, they were found.
void PieceCounter::note_new(size_t n_bytes) {
  piece_bytes_ += static_cast<int64_t>(n_bytes);
  while (piece_bytes_ + kEntryBytes * distinct() > max_bytes_) thin();
}

void PieceCounter::grow_shorts() {
  const std::vector<Short> before = std::exchange(shorts_, std::vector<Short>(2 * shorts_.size()));
  const size_t mask = shorts_.size() - 1;
  for (const Short& slot : before) {
    if (slot.count == 0) continue;
    size_t i = static_cast<size_t>(hash_of(slot.key) >> 32) & mask;
    while (shorts_[i].count != 0) i = (i + 1) & mask;
    shorts_[i] = slot;
  }
}

void PieceCounter::grow_longs() {
  const std::vector<Long> before = std::exchange(longs_, std::vector<Long>(2 * longs_.size()));
  const size_t mask = longs_.size() - 1;
  for (const Long& slot : before) {
    if (slot.count == 0) continue;
    size_t i = static_cast<size_t>(slot.hash >> 32) & mask;
    while (longs_[i].count != 0) i = (i + 1) & mask;
    longs_[i] = slot;
  }
}

void PieceCounter::thin() {
  if (thin_log2_ == kMaxThinLog2) {
    throw ResourceError(fmt::format(
        "the text has more than {} different short pieces, too many for the memory allowed ({} "
        "bytes): is it text?",
        n_shorts_,
        max_bytes_));
  }
  PieceCounter kept(max_bytes_);
  kept.thin_log2_ = thin_log2_ + 1;
  kept.max_bytes_ = std::numeric_limits<int64_t>::max();
  kept.merge(*this);
  kept.max_bytes_ = max_bytes_;
  *this = std::move(kept);
}

void PieceCounter::merge(PieceCounter& other) {
  while (thin_log2_ < other.thin_log2_) thin();
  for (const Short& slot : std::exchange(other.shorts_, std::vector<Short>(kFirstSlots))) {
    if (slot.count != 0) add_short(slot.key, slot.count);
  }
  const std::string store = std::exchange(other.store_, {});
  for (const Long& slot : std::exchange(other.longs_, std::vector<Long>(kFirstSlots))) {
    if (slot.count == 0) continue;
    add_long(std::string_view(store).substr(slot.begin, slot.n_bytes), slot.count);
  }
  other.n_shorts_ = other.n_longs_ = 0;
  other.piece_bytes_ = 0;
}

}  // namespace tril
