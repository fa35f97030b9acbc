#pragma once
// What several processes say to each other when they prepare one text together. No Torch here.

#include <cstdint>
#include <string>

namespace tril {

/// Each process encodes its share of a text's blocks; the first one (rank 0) writes them all.
class BlockExchange {
 public:
  BlockExchange(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~BlockExchange() = default;
  BlockExchange(const BlockExchange&) = delete;
  BlockExchange& operator=(const BlockExchange&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }
  int64_t owner_of(int64_t block) const { return block % size_; }

  /// A message to rank 0. Both may wait for the other side, and throw PeerError when it has gone.
  virtual void send(const std::string& message) = 0;
  /// The next message of `rank`, in the order in which it sent them.
  virtual std::string receive(int64_t rank) = 0;

 private:
  int64_t rank_;
  int64_t size_;
};

}  // namespace tril
