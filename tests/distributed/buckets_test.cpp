#include "tril/distributed/buckets.h"

#include <numeric>

#include "support/catch.h"

using namespace tril;

namespace {

int64_t end_of(const BucketMember& member) {
  return member.offset + member.count;
}

/// Every parameter once, none overlapping, all inside, whole ones in one slot.
void require_sound(const std::vector<Bucket>& buckets,
                   const std::vector<int64_t>& sizes,
                   const std::vector<bool>& whole,
                   int64_t n_processes) {
  std::vector<int> seen(sizes.size(), 0);
  for (const Bucket& bucket : buckets) {
    REQUIRE(bucket.slot % kSlotAlignment == 0);
    int64_t end = 0;
    for (const BucketMember& member : bucket.members) {
      REQUIRE(member.offset >= end);
      REQUIRE(member.count == sizes[member.parameter]);
      REQUIRE(whole[member.parameter] == bucket.whole_members);
      if (bucket.whole_members) {
        REQUIRE(member.offset / bucket.slot == (end_of(member) - 1) / bucket.slot);
      }
      end = end_of(member);
      ++seen[member.parameter];
    }
    REQUIRE(end <= n_processes * bucket.slot);
  }
  for (const int n : seen) REQUIRE(n == 1);
}

}  // namespace

TEST_CASE("buckets hold every parameter once, from the last to the first", "[distributed]") {
  const std::vector<int64_t> sizes = {100, 7, 300, 33, 1, 250};
  const std::vector<bool> whole(sizes.size(), false);
  for (const int64_t n : {2, 3, 4, 7}) {
    const auto buckets = plan_buckets(sizes, whole, n, 280);
    require_sound(buckets, sizes, whole, n);
    // 250 + 1 + 33 >= 280; 300 >= 280; then what is left.
    REQUIRE(buckets.size() == 3);
    CHECK(buckets[0].members[0].parameter == 5);
    CHECK(buckets[0].members.size() == 3);
    CHECK(buckets[1].members[0].parameter == 2);
    CHECK(buckets[2].members.size() == 2);
  }
}

TEST_CASE("matrices that must be whole are shared out evenly", "[distributed]") {
  // Like 6 blocks of width 64 with 4 heads: 12 small matrices, one square, two wide ones each.
  std::vector<int64_t> sizes;
  std::vector<bool> whole;
  for (int block = 0; block < 6; ++block) {
    for (int i = 0; i < 12; ++i) sizes.push_back(64 * 16);
    sizes.insert(sizes.end(), {64 * 64, 4 * 64 * 64, 4 * 64 * 64});
    whole.insert(whole.end(), 15, true);
    sizes.push_back(64);  // a norm
    whole.push_back(false);
  }
  const int64_t matrices = 6 * 12 * 64 * 64;
  for (const int64_t n : {2, 3, 4}) {
    const auto buckets = plan_buckets(sizes, whole, n, int64_t{1} << 30);
    require_sound(buckets, sizes, whole, n);
    REQUIRE(buckets.size() == 2);
    CHECK(buckets[0].slot * n <= matrices + matrices / 10);
  }
}

TEST_CASE("a bucket of whole matrices is cut evenly for their weights", "[distributed]") {
  // One matrix is most of it: whole, the largest slot is 1000 numbers.
  const std::vector<int64_t> sizes = {1000, 64, 64, 100};
  const auto buckets = plan_buckets(sizes, std::vector<bool>(4, true), 4, int64_t{1} << 30);
  REQUIRE(buckets.size() == 1);
  REQUIRE(buckets[0].slot == 1008);
  const Bucket even = cut_evenly(buckets[0], 4);
  require_sound({even}, sizes, std::vector<bool>(4, false), 4);
  CHECK(even.slot <= 1228 / 4 + 2 * kSlotAlignment);

  // The parts in the slots are all numbers of all members, once and in their places.
  for (const Bucket& bucket : {buckets[0], even}) {
    std::vector<int64_t> found(4, 0);
    for (int64_t rank = 0; rank < 4; ++rank) {
      for (const SlotPart& part : parts_in_slot(bucket, rank)) {
        const BucketMember& member = bucket.members[part.member];
        CHECK(part.begin == found[member.parameter]);
        CHECK(part.bucket_offset == member.offset + part.begin);
        CHECK(part.bucket_offset == rank * bucket.slot + part.slot_offset);
        CHECK(part.slot_offset + part.count <= bucket.slot);
        found[member.parameter] += part.count;
      }
    }
    CHECK(found == sizes);
  }
}

TEST_CASE("a batch's rows are shared out without gaps", "[distributed]") {
  for (int64_t rows = 1; rows <= 13; ++rows) {
    for (int64_t n = 1; n <= rows; ++n) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < n; ++rank) {
        const RowShare share = share_of_rows(rows, rank, n);
        REQUIRE(share.begin == next);
        REQUIRE(share.count >= rows / n);
        REQUIRE(share.count <= rows / n + 1);
        next = share.begin + share.count;
      }
      REQUIRE(next == rows);
    }
  }
}
