#include "tril/distributed/buckets.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace tril {
namespace {

int64_t aligned(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/// Members in a row; slots are cut wherever they fall. Each begins at an aligned place: matrix
/// products round otherwise elsewhere.
void lay_out_in_a_row(Bucket& bucket, int64_t n_processes) {
  int64_t offset = 0;
  for (BucketMember& member : bucket.members) {
    member.offset = aligned(offset, kSlotAlignment);
    offset = member.offset + member.count;
  }
  bucket.slot = aligned((offset + n_processes - 1) / n_processes, kSlotAlignment);
}

/// The largest first, each to the process with the least in this bucket, or then in all.
void lay_out_whole(Bucket& bucket, std::vector<int64_t>& totals) {
  std::stable_sort(bucket.members.begin(), bucket.members.end(), [](const auto& a, const auto& b) {
    return a.count > b.count;
  });
  std::vector<int64_t> loads(totals.size(), 0);
  std::vector<size_t> owners;
  for (BucketMember& member : bucket.members) {
    size_t best = 0;
    for (size_t rank = 1; rank < loads.size(); ++rank) {
      const auto key = [&](size_t r) { return std::pair(loads[r], totals[r]); };
      if (key(rank) < key(best)) best = rank;
    }
    member.offset = loads[best];
    loads[best] += member.count;
    totals[best] += member.count;
    owners.push_back(best);
  }
  bucket.slot = aligned(*std::max_element(loads.begin(), loads.end()), kSlotAlignment);
  for (size_t i = 0; i < owners.size(); ++i) {
    bucket.members[i].offset += static_cast<int64_t>(owners[i]) * bucket.slot;
  }
  std::sort(bucket.members.begin(), bucket.members.end(), [](const auto& a, const auto& b) {
    return a.offset < b.offset;
  });
}

}  // namespace

std::vector<Bucket> plan_buckets(const std::vector<int64_t>& sizes,
                                 const std::vector<bool>& whole,
                                 int64_t n_processes,
                                 int64_t bucket_numbers) {
  std::vector<Bucket> result;
  std::vector<int64_t> totals(static_cast<size_t>(n_processes), 0);
  Bucket open[2];
  int64_t n_open[2] = {0, 0};
  const auto close = [&](size_t kind) {
    if (open[kind].members.empty()) return;
    open[kind].whole_members = kind == 1;
    if (kind == 1) {
      lay_out_whole(open[kind], totals);
    } else {
      lay_out_in_a_row(open[kind], n_processes);
    }
    result.push_back(std::move(open[kind]));
    open[kind] = {};
    n_open[kind] = 0;
  };
  for (size_t i = sizes.size(); i-- > 0;) {
    const size_t kind = whole[i] ? 1 : 0;
    open[kind].members.push_back({.parameter = i, .offset = 0, .count = sizes[i]});
    n_open[kind] += sizes[i];
    if (n_open[kind] >= bucket_numbers) close(kind);
  }
  close(1);
  close(0);
  return result;
}

std::vector<Bucket> plan_buckets_by_unit(const std::vector<int64_t>& sizes,
                                         const std::vector<bool>& whole,
                                         const std::vector<int64_t>& units,
                                         int64_t n_processes,
                                         int64_t bucket_numbers,
                                         std::vector<int64_t>& unit_of_bucket) {
  std::vector<Bucket> result;
  unit_of_bucket.clear();
  for (size_t end = sizes.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && units[begin - 1] == units[end - 1]) --begin;
    const auto first = static_cast<std::ptrdiff_t>(begin), last = static_cast<std::ptrdiff_t>(end);
    const int64_t limit = units[begin] >= 0 ? std::numeric_limits<int64_t>::max() : bucket_numbers;
    auto buckets = plan_buckets({sizes.begin() + first, sizes.begin() + last},
                                {whole.begin() + first, whole.begin() + last},
                                n_processes,
                                limit);
    for (Bucket& bucket : buckets) {
      for (BucketMember& member : bucket.members) member.parameter += begin;
      unit_of_bucket.push_back(units[begin]);
      result.push_back(std::move(bucket));
    }
    end = begin;
  }
  return result;
}

Bucket cut_evenly(Bucket bucket, int64_t n_processes) {
  lay_out_in_a_row(bucket, n_processes);
  bucket.whole_members = false;
  return bucket;
}

std::vector<SlotPart> parts_in_slot(const Bucket& bucket, int64_t rank) {
  std::vector<SlotPart> result;
  const int64_t slot_begin = rank * bucket.slot, slot_end = slot_begin + bucket.slot;
  for (size_t m = 0; m < bucket.members.size(); ++m) {
    const BucketMember& member = bucket.members[m];
    const int64_t begin = std::max(slot_begin, member.offset);
    const int64_t end = std::min(slot_end, member.offset + member.count);
    if (begin >= end) continue;
    result.push_back({.member = m,
                      .begin = begin - member.offset,
                      .count = end - begin,
                      .slot_offset = begin - slot_begin,
                      .bucket_offset = begin});
  }
  return result;
}

RowShare share_of_rows(int64_t rows, int64_t rank, int64_t n_processes) {
  const int64_t begin = rows * rank / n_processes;
  return {begin, rows * (rank + 1) / n_processes - begin};
}

}  // namespace tril
