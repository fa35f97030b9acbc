#pragma once
// Weights that are there only while they are needed.

#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tril {

/// A table (V, ...) whose rows are lent in pieces, a unit each: equal numbers of rows, of which the
/// last piece may have fewer.
struct RowPieces {
  size_t first_unit = 0;
  int64_t rows = 0;  ///< of the table; 0: the model has none
  int64_t rows_per_piece = 1;

  size_t count() const { return static_cast<size_t>((rows + rows_per_piece - 1) / rows_per_piece); }
  size_t unit(size_t piece) const { return first_unit + piece; }
  int64_t first_row(size_t piece) const { return static_cast<int64_t>(piece) * rows_per_piece; }
  int64_t rows_of(size_t piece) const { return std::min(rows_per_piece, rows - first_row(piece)); }
};

/// What is lent together, numbered in the order of a forward pass: the pieces of the token
/// embedding, those of the position embedding, the blocks, the pieces of the head. A tied head's
/// weights are the token embedding's too, piece by piece.
struct LendingUnits {
  RowPieces tokens, positions;
  size_t first_block = 0;
  RowPieces head;

  size_t block(size_t i) const { return first_block + i; }
  size_t size() const { return head.unit(head.count()); }
};

/// Lends a model its weights unit by unit: between release and acquire a unit's may hold no values.
class WeightLender {
 public:
  virtual ~WeightLender() = default;
  virtual const LendingUnits& units() const = 0;
  /// False while all weights are there, as without a lender.
  virtual bool is_lending() const = 0;
  virtual void acquire(size_t unit) = 0;
  virtual void release(size_t unit) = 0;
  /// The rows of `table` in an acquired piece of it: (rows_of(piece), ...). The table itself holds
  /// values only where it is one piece.
  virtual torch::Tensor rows(const torch::Tensor& table,
                             const RowPieces& pieces,
                             size_t piece) const = 0;
};

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
