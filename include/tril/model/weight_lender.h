#pragma once
// Weights that are there only while they are needed.

#include <cstddef>

namespace tril {

/// Lends a model its weights unit by unit: between release and acquire a unit's may hold no values.
/// Units are numbered in the order of a forward pass: the embeddings, the blocks, the head. A tied
/// head's weights are the embeddings' too, and are there while either is lent.
class WeightLender {
 public:
  virtual ~WeightLender() = default;
  virtual void acquire(size_t unit) = 0;
  virtual void release(size_t unit) = 0;
};

inline constexpr size_t kEmbeddingUnit = 0;
constexpr size_t block_unit(size_t block) {
  return block + 1;
}
constexpr size_t head_unit(size_t n_blocks) {
  return n_blocks + 1;
}

/// Holds one unit's weights as long as it lives; without a lender (the usual case) does nothing.
class BorrowedWeights {
 public:
  BorrowedWeights(WeightLender* lender, size_t unit) : lender_(lender), unit_(unit) {
    if (lender_ != nullptr) lender_->acquire(unit_);
  }
  ~BorrowedWeights() {
    if (lender_ != nullptr) lender_->release(unit_);
  }
  BorrowedWeights(const BorrowedWeights&) = delete;
  BorrowedWeights& operator=(const BorrowedWeights&) = delete;

 private:
  WeightLender* lender_;
  size_t unit_;
};

}  // namespace tril
