#pragma once
// Weights that are there only while their block computes.

#include <cstddef>

namespace tril {

/// Lends each block its weights: between release and acquire they may hold no values.
class BlockWeights {
 public:
  virtual ~BlockWeights() = default;
  virtual void acquire(size_t block) = 0;
  virtual void release(size_t block) = 0;
};

/// Holds one block's weights as long as it lives; without a lender (the usual case) does nothing.
class BorrowedBlock {
 public:
  BorrowedBlock(BlockWeights* lender, size_t block) : lender_(lender), block_(block) {
    if (lender_ != nullptr) lender_->acquire(block_);
  }
  ~BorrowedBlock() {
    if (lender_ != nullptr) lender_->release(block_);
  }
  BorrowedBlock(const BorrowedBlock&) = delete;
  BorrowedBlock& operator=(const BorrowedBlock&) = delete;

 private:
  BlockWeights* lender_;
  size_t block_;
};

}  // namespace tril
