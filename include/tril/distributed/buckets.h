#pragma once
// How parameters are put into flat buckets, and buckets are cut into equal slots, one per process.
// No Torch here: sizes only.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tril {

/// The place in a bucket of one parameter, or of a run of its numbers.
struct BucketMember {
  size_t parameter = 0;
  int64_t offset = 0;  ///< of its first number
  int64_t count = 0;
  int64_t begin = 0;  ///< the first number's place in the parameter
};

struct Bucket {
  std::vector<BucketMember> members;  ///< by offset; what lies between and after them is padding
  int64_t slot = 0;                   ///< numbers per process; the bucket has that many per process
  bool whole_members = false;         ///< no member crosses the border of two slots
};

/// Slots, and members that do not have one to themselves, begin at multiples of so many numbers (64
/// bytes).
inline constexpr int64_t kSlotAlignment = 16;

/// Buckets of at least `bucket_numbers` numbers (the last ones may have fewer), from the last
/// parameter to the first: about the order in which the backward pass is done with them.
/// `whole[i]`: parameter i must lie in one slot; such parameters have buckets of their own, in
/// which each goes to the process that has the least so far.
std::vector<Bucket> plan_buckets(const std::vector<int64_t>& sizes,
                                 const std::vector<bool>& whole,
                                 int64_t n_processes,
                                 int64_t bucket_numbers);

/// The same, with buckets that hold parameters of one unit only: `units[i]` is parameter i's, equal
/// numbers stand together. A unit of number >= 0 has one bucket (of each kind), however large;
/// others are cut at bucket_numbers. `unit_of_bucket` receives each bucket's unit.
std::vector<Bucket> plan_buckets_by_unit(const std::vector<int64_t>& sizes,
                                         const std::vector<bool>& whole,
                                         const std::vector<int64_t>& units,
                                         int64_t n_processes,
                                         int64_t bucket_numbers,
                                         std::vector<int64_t>& unit_of_bucket);

/// The same members, one after the other, in slots that are cut wherever they fall.
Bucket cut_evenly(Bucket bucket, int64_t n_processes);

/// The part of a member that lies in one process's slot.
struct SlotPart {
  size_t member = 0;
  int64_t begin = 0;  ///< in the member
  int64_t count = 0;
  int64_t slot_offset = 0;
  int64_t bucket_offset = 0;
};
std::vector<SlotPart> parts_in_slot(const Bucket& bucket, int64_t rank);

/// The rows of a batch that one process takes: as equal as they can be.
struct RowShare {
  int64_t begin = 0;
  int64_t count = 0;
};
RowShare share_of_rows(int64_t rows, int64_t rank, int64_t n_processes);

}  // namespace tril
