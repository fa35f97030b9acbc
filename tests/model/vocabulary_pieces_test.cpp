// Embeddings and head lent in pieces of rows, against the whole tables.

#include <torch/torch.h>

#include <cmath>
#include <map>
#include <set>

#include "../../src/model/vocabulary_pieces.h"
#include "support/catch.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/model/autocast.h"
#include "tril/model/loss.h"
#include "tril/optim/parameters.h"

namespace tril {
namespace {

/// Keeps tables to itself, leaves NaN in their place, and hands out rows of acquired units only.
class TableLender : public WeightLender {
 public:
  TableLender(const std::vector<torch::Tensor>& tables, const LendingUnits& units) : units_(units) {
    for (torch::Tensor table : tables) {
      if (!table.defined()) continue;
      values_[table.unsafeGetTensorImpl()] = table.detach().clone();
      table.set_data(torch::full_like(table.detach(), std::nan("")));
    }
  }

  const LendingUnits& units() const override { return units_; }
  bool is_lending() const override { return true; }
  void acquire(size_t unit) override {
    acquired_.insert(unit);
    most_acquired_ = std::max(most_acquired_, std::set(acquired_.begin(), acquired_.end()).size());
  }
  void release(size_t unit) override { acquired_.erase(acquired_.find(unit)); }
  torch::Tensor rows(const torch::Tensor& table,
                     const RowPieces& pieces,
                     size_t piece) const override {
    TORCH_CHECK(acquired_.contains(pieces.unit(piece)), "rows of a unit that is not acquired");
    return values_.at(table.unsafeGetTensorImpl())
        .narrow(0, pieces.first_row(piece), pieces.rows_of(piece));
  }
  size_t most_acquired() const { return most_acquired_; }

 private:
  LendingUnits units_;
  std::map<void*, torch::Tensor> values_;
  std::multiset<size_t> acquired_;
  size_t most_acquired_ = 0;
};

LendingUnits units_of_tables(int64_t vocab, int64_t positions, size_t n_blocks, int64_t rows) {
  LendingUnits units;
  units.tokens = {.first_unit = 0, .rows = vocab, .rows_per_piece = rows};
  units.positions = {.first_unit = units.tokens.count(), .rows = positions, .rows_per_piece = rows};
  units.first_block = units.positions.unit(units.positions.count());
  units.head = {.first_unit = units.block(n_blocks), .rows = vocab, .rows_per_piece = rows};
  return units;
}

/// Sums of many numbers in another order, each of about 1.
constexpr double kPiecesTolerance = 1e-6;

struct HeadCase {
  torch::Tensor hidden, weight, bias, targets;
};

HeadCase make_head(
    int64_t n, int64_t padded, int64_t vocab, bool with_bias, torch::ScalarType type) {
  torch::manual_seed(5);
  const auto options = torch::TensorOptions().dtype(type);
  HeadCase head;
  head.hidden = torch::randn({1, n, 6}, options).requires_grad_(true);
  head.weight = torch::randn({padded, 6}, options).requires_grad_(true);
  if (with_bias) head.bias = torch::randn({padded}, options).requires_grad_(true);
  head.targets = torch::randint(vocab, {1, n}, torch::kInt64);
  return head;
}

/// The loss and the gradients of hidden, weight and bias.
std::vector<torch::Tensor> loss_and_gradients(const HeadCase& head,
                                              int64_t vocab,
                                              WeightLender* lender) {
  const torch::Tensor loss =
      linear_cross_entropy(head.hidden, head.weight, head.bias, head.targets, vocab, 0.25, lender);
  std::vector<torch::Tensor> inputs = {head.hidden, head.weight}, result = {loss};
  if (head.bias.defined()) inputs.push_back(head.bias);
  // 3 is not 1: the gradient that arrives from outside is used.
  for (auto& gradient : torch::autograd::grad({loss * 3}, inputs)) result.push_back(gradient);
  return result;
}

}  // namespace

TEST_CASE("rows looked up piece by piece are those of the whole table, bit for bit", "[model]") {
  torch::manual_seed(4);
  const torch::Tensor whole = torch::randn({11, 3}), weights = torch::randn({2, 6, 3});
  const torch::Tensor ids = torch::tensor({{0, 10, 3, 4, 4, 8}, {7, 10, 9, 5, 1, 2}});
  for (const bool sparse : {false, true}) {
    for (const int64_t rows : {1, 4, 11}) {
      INFO(rows << " rows, sparse " << sparse);
      const torch::Tensor plain = whole.clone().requires_grad_(true);
      const torch::Tensor expected = torch::embedding(plain, ids, -1, false, sparse);
      const torch::Tensor table = whole.clone().requires_grad_(true);
      TableLender lender({table}, units_of_tables(11, 0, 0, rows));
      const torch::Tensor found =
          lookup_in_pieces(lender, table, lender.units().tokens, ids, sparse);
      CHECK(found.equal(expected));
      CHECK(lender.most_acquired() == 1);
      (expected * weights).sum().backward();
      (found * weights).sum().backward();
      CHECK(table.grad().is_sparse() == sparse);
      CHECK(table.grad().to_dense().equal(plain.grad().to_dense()));
    }
  }
}

TEST_CASE("the loss over a vocabulary in pieces is the whole one: value and every gradient",
          "[model][loss]") {
  struct Sizes {
    int64_t n, vocab, padded, rows;
  };
  // Pieces that end early, that are padding in part or all, of one row, and (the last case) so
  // large that the states are taken in two chunks.
  for (const auto& [n, vocab, padded, rows] : {Sizes{5, 11, 11, 4},
                                               Sizes{5, 11, 16, 3},
                                               Sizes{5, 11, 16, 1},
                                               Sizes{70, 500, 512, 64},
                                               Sizes{300, 180000, 180000, 100000}}) {
    for (const bool with_bias : {true, false}) {
      for (const auto type : {torch::kFloat32, torch::kFloat64}) {
        // In float both forms are 1e-6 off there: products of matrices with so many terms.
        if (vocab == 180000 && type == torch::kFloat32) continue;
        INFO(n << " states, V " << vocab << ", padded " << padded << ", " << rows << " rows, bias "
               << with_bias << ", " << type);
        const HeadCase head = make_head(n, padded, vocab, with_bias, type);
        const auto expected = loss_and_gradients(head, vocab, nullptr);
        TableLender lender({head.weight, head.bias}, units_of_tables(padded, 0, 0, rows));
        const auto found = loss_and_gradients(head, vocab, &lender);
        CHECK(lender.most_acquired() == 1);
        const double tolerance = type == torch::kFloat32 ? kPiecesTolerance : 1e-12;
        for (size_t i = 0; i < found.size(); ++i) CHECK_CLOSE(found[i], expected[i], tolerance);
      }
    }
  }
}

TEST_CASE("the loss over a vocabulary in pieces in 16 bits stays within bf16's round-off",
          "[model][loss]") {
  const auto precision = GENERATE(as<torch::ScalarType>{}, torch::kBFloat16, torch::kFloat16);
  const HeadCase head = make_head(40, 64, 60, /*with_bias=*/true, torch::kFloat32);
  const auto exact = loss_and_gradients(head, 60, nullptr);
  TableLender lender({head.weight, head.bias}, units_of_tables(64, 0, 0, 13));
  const AutocastGuard autocast(torch::kCPU, precision);
  const auto found = loss_and_gradients(head, 60, &lender);
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].scalar_type() == torch::kFloat32);
    CHECK_CLOSE(found[i], exact[i], testing::kBf16Tolerance);
  }
  CHECK_FALSE(torch::equal(found[0], exact[0]));  // the precision was really used
}

TEST_CASE("a vocabulary in pieces passes NaN on", "[model][loss]") {
  const HeadCase head = make_head(2, 9, 9, /*with_bias=*/false, torch::kFloat32);
  TableLender lender({head.weight}, units_of_tables(9, 0, 0, 4));
  const torch::Tensor poisoned = torch::full({1, 2, 6}, std::nan(""), torch::kFloat32);
  CHECK(linear_cross_entropy(poisoned, head.weight, {}, head.targets, 9, 1.0, &lender)
            .isnan()
            .item<bool>());
}

TEST_CASE("a model whose tables are lent in pieces computes what the whole one does",
          "[model][loss]") {
  for (const bool tied : {false, true}) {
    ModelConfig config = testing::tiny_config(Preset::kGpt2);  // learned positions
    config.tie_embeddings = tied;
    config.head_bias = true;
    config.vocab_size = 31;
    config.vocab_multiple = 16;
    GPT plain = testing::tiny_model(config), lent = testing::tiny_model(config);
    TableLender lender({lent->token_embedding->weight,
                        lent->position_embedding->weight,
                        lent->lm_head->weight,
                        lent->lm_head->bias},
                       units_of_tables(32, 8, 2, 5));
    lent->set_weight_lender(&lender);
    const auto ids = testing::tiny_ids(2, 8, 31);
    const auto inputs = ids.narrow(1, 0, 7), targets = ids.narrow(1, 1, 7);
    INFO("tied " << tied);
    {
      const torch::NoGradGuard no_grad;
      CHECK_CLOSE(lent->forward(inputs), plain->forward(inputs), testing::kFp32Tolerance);
      CHECK_CLOSE(token_losses(lent, inputs, targets),
                  token_losses(plain, inputs, targets),
                  testing::kFp32Tolerance);
    }
    for (GPT* model : {&plain, &lent}) {
      (*model)->train();
      (*model)->set_activation_checkpointing(true);
      training_loss(*model, inputs, targets).backward();
    }
    CHECK(lender.most_acquired() == 1);
    const auto expected = unique_parameters(*plain), found = unique_parameters(*lent);
    for (size_t i = 0; i < found.size(); ++i) {
      INFO(found[i].name);
      CHECK_CLOSE(found[i].tensor.grad(), expected[i].tensor.grad(), testing::kFp32Tolerance);
    }
  }
}

}  // namespace tril
