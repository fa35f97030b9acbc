#include "piece_cache.h"

#define XXH_INLINE_ALL  // header-only: no library to link
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace tril {

void PieceCache::clear(size_t n_lines) {
  lines_.assign(n_lines, Line());
  n_entries_ = 0;
}

void PieceCache::make_room(size_t n_ids, size_t n_bytes) {
  if (ids_.size() + n_ids <= kMaxStored && bytes_.size() + n_bytes <= kMaxStored) return;
  clear(lines_.size());
  std::fill(longs_.begin(), longs_.end(), Long());
  ids_.resize(kMaxKeyBytes + 1);
  bytes_.clear();
}

void PieceCache::place(const PieceKey& key, const Ids& ids) {
  size_t at = static_cast<size_t>(line_of(key) - lines_.data());
  while (lines_[at].ids[1].n_ids != 0) at = (at + 1) & (lines_.size() - 1);
  const size_t which = lines_[at].ids[0].n_ids == 0 ? 0 : 1;
  lines_[at].keys[which] = key;
  lines_[at].ids[which] = ids;
  ++n_entries_;
}

uint32_t PieceCache::store(std::span<const int32_t> ids) {
  const auto end = ids_.end() - (kMaxKeyBytes + 1);
  const auto begin = static_cast<uint32_t>(end - ids_.begin());
  ids_.insert(end, ids.begin(), ids.end());
  return begin;
}

void PieceCache::insert(const PieceKey& key, std::span<const int32_t> ids) {
  const bool is_stored = ids.size() > kMaxIds;
  if (is_stored) make_room(ids.size(), 0);
  if (2 * n_entries_ >= lines_.size()) {  // a quarter of the places: overflowing lines stay rare
    const auto before = std::move(lines_);
    const bool may_grow = before.size() < kMaxLines;
    clear(may_grow ? 2 * before.size() : before.size());
    for (const Line& line : before) {
      for (size_t i = 0; may_grow && i < 2; ++i) {
        if (line.ids[i].n_ids != 0) place(line.keys[i], line.ids[i]);
      }
    }
  }
  Ids entry{{}, static_cast<uint32_t>(ids.size())};
  if (is_stored) {
    entry.ids[0] = static_cast<int32_t>(store(ids));
  } else {
    std::copy(ids.begin(), ids.end(), entry.ids);
  }
  place(key, entry);
}

std::span<const int32_t> PieceCache::find_long(std::string_view piece) const {
  const uint64_t hash = XXH3_64bits(piece.data(), piece.size());
  const Long& entry = longs_[hash >> (64 - kLogLongs)];
  if (entry.n_ids == 0 || entry.hash != hash ||
      std::string_view(bytes_).substr(entry.bytes_begin, entry.n_bytes) != piece) {
    return {};
  }
  return std::span(ids_).subspan(entry.ids_begin, entry.n_ids);
}

void PieceCache::insert_long(std::string_view piece, std::span<const int32_t> ids) {
  make_room(ids.size(), piece.size());
  const uint64_t hash = XXH3_64bits(piece.data(), piece.size());
  longs_[hash >> (64 - kLogLongs)] = {hash,
                                      static_cast<uint32_t>(bytes_.size()),
                                      static_cast<uint32_t>(piece.size()),
                                      store(ids),
                                      static_cast<uint32_t>(ids.size())};
  bytes_ += piece;
}

}  // namespace tril
