#include "vocabulary_pieces.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tril/model/linear.h"
#include "tril/model/loss.h"
#include "tril/model/matrix_product.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Which ids lie in a run of rows, and where; all on the device, so nobody waits for a number.
struct Located {
  torch::Tensor row;        ///< within the run; any one where the id is not in it
  torch::Tensor is_inside;  ///< bool
};

Located locate(const torch::Tensor& ids, int64_t first, int64_t count) {
  const torch::Tensor row = ids - first;
  return {row.clamp(0, count - 1), row.ge(0).logical_and_(row.lt(count))};
}

class LookupInPieces : public torch::autograd::Function<LookupInPieces> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& table,
                               const torch::Tensor& ids,
                               WeightLender* lender,
                               const RowPieces& pieces,
                               bool sparse_gradient) {
    ctx->save_for_backward({ids});
    ctx->saved_data["rows"] = pieces.rows;
    ctx->saved_data["sparse"] = sparse_gradient;
    torch::Tensor found;
    for (size_t piece = 0; piece < pieces.count(); ++piece) {
      const BorrowedWeights borrowed(lender, pieces.unit(piece));
      const Located at = locate(ids, pieces.first_row(piece), pieces.rows_of(piece));
      const torch::Tensor rows = torch::embedding(lender->rows(table, pieces, piece), at.row);
      found = found.defined() ? torch::where(at.is_inside.unsqueeze(-1), rows, found) : rows;
    }
    return found;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const torch::Tensor d_table = at::embedding_backward(grad_outputs[0],
                                                         ctx->get_saved_variables()[0],
                                                         ctx->saved_data["rows"].toInt(),
                                                         /*padding_idx=*/-1,
                                                         /*scale_grad_by_freq=*/false,
                                                         ctx->saved_data["sparse"].toBool());
    return {d_table, {}, {}, {}, {}};
  }
};

/// The rows of one piece that are ids; the padding's are at the end of the vocabulary.
struct HeadRows {
  int64_t first = 0;
  int64_t count = 0;     ///< 0: all padding
  torch::Tensor weight;  ///< (count, C)
  torch::Tensor bias;    ///< (count) or undefined
};

HeadRows rows_of_head(const LentHead& head, size_t piece, torch::ScalarType products) {
  const RowPieces& pieces = head.lender.units().head;
  HeadRows rows;
  rows.first = pieces.first_row(piece);
  rows.count = std::clamp<int64_t>(head.vocab_size - rows.first, 0, pieces.rows_of(piece));
  rows.weight = head.lender.rows(head.weight, pieces, piece).narrow(0, 0, rows.count).to(products);
  if (head.bias.defined()) {
    rows.bias = head.lender.rows(head.bias, pieces, piece).narrow(0, 0, rows.count).to(products);
  }
  return rows;
}

/// body(first, count) for runs of the N states, so that logits are never many.
template <typename Body>
void for_each_chunk(int64_t n, const HeadRows& rows, const Body& body) {
  if (rows.count == 0) return;
  const int64_t chunk = loss_chunk_rows(rows.count);
  for (int64_t first = 0; first < n; first += chunk) body(first, std::min(chunk, n - first));
}

/// The softmax over the pieces seen so far, of each of the N states.
struct RunningSoftmax {
  torch::Tensor highest;    ///< logit
  torch::Tensor sum;        ///< of exp(logit - highest)
  torch::Tensor at_target;  ///< the target's logit

  RunningSoftmax(int64_t n, const torch::TensorOptions& options)
      : highest(torch::full({n}, -std::numeric_limits<double>::infinity(), options)),
        sum(torch::zeros({n}, options)),
        at_target(torch::zeros({n}, options)) {}

  torch::Tensor losses() const { return sum.log() + highest - at_target; }  // (N)

  void add(const HeadRows& rows, const torch::Tensor& x, const torch::Tensor& targets) {
    for_each_chunk(x.size(0), rows, [&](int64_t first, int64_t n) {
      const torch::Tensor logits = linear_map(x.narrow(0, first, n), rows.weight, rows.bias)
                                       .to(sum.scalar_type());  // (n, count)
      const Located at = locate(targets.narrow(0, first, n), rows.first, rows.count);
      torch::Tensor target = at_target.narrow(0, first, n);
      target.copy_(
          torch::where(at.is_inside, logits.gather(1, at.row.unsqueeze(1)).squeeze(1), target));
      torch::Tensor old_highest = highest.narrow(0, first, n), old_sum = sum.narrow(0, first, n);
      const torch::Tensor now = torch::maximum(old_highest, logits.amax(1));
      old_sum.mul_((old_highest - now).exp_());
      old_sum.add_((logits - now.unsqueeze(1)).exp_().sum(1));
      old_highest.copy_(now);
    });
  }
};

torch::TensorOptions softmax_options(const torch::Tensor& x) {
  return x.options().dtype(x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
}

void add_gradients(const HeadRows& rows,
                   const torch::Tensor& x,
                   const torch::Tensor& targets,
                   const RunningSoftmax& softmax,
                   double scale,
                   LossAndGradients& result) {
  for_each_chunk(x.size(0), rows, [&](int64_t first, int64_t n) {
    const torch::Tensor x_chunk = x.narrow(0, first, n);
    torch::Tensor d_logits =
        linear_product(x_chunk, rows.weight, rows.bias).to(softmax.sum.scalar_type());
    d_logits.sub_(softmax.highest.narrow(0, first, n).unsqueeze(1)).exp_();
    d_logits.mul_((scale / softmax.sum.narrow(0, first, n)).unsqueeze(1));  // (n, count)
    const Located at = locate(targets.narrow(0, first, n), rows.first, rows.count);
    d_logits.scatter_add_(
        1, at.row.unsqueeze(1), at.is_inside.to(d_logits.scalar_type()).mul_(-scale).unsqueeze(1));
    d_logits = d_logits.to(x.scalar_type());
    result.d_hidden.narrow(0, first, n).add_(input_gradient(d_logits, rows.weight));
    torch::Tensor d_rows = result.d_weight.narrow(0, rows.first, rows.count);
    add_weight_gradient(d_rows, d_logits, x_chunk);
    if (result.d_bias.defined()) {
      result.d_bias.narrow(0, rows.first, rows.count)
          .add_(d_logits.sum(0, /*keepdim=*/false, result.d_bias.scalar_type()));
    }
  });
}

}  // namespace

torch::Tensor lookup_in_pieces(WeightLender& lender,
                               const torch::Tensor& table,
                               const RowPieces& pieces,
                               const torch::Tensor& ids,
                               bool sparse_gradient) {
  return LookupInPieces::apply(table, ids, &lender, pieces, sparse_gradient);
}

torch::Tensor logits_in_pieces(const LentHead& head, const torch::Tensor& x) {
  const RowPieces& pieces = head.lender.units().head;
  std::vector<torch::Tensor> logits;
  for (size_t piece = 0; piece < pieces.count(); ++piece) {
    const BorrowedWeights borrowed(&head.lender, pieces.unit(piece));
    logits.push_back(linear_map(
        x,
        head.lender.rows(head.weight, pieces, piece),
        head.bias.defined() ? head.lender.rows(head.bias, pieces, piece) : torch::Tensor()));
  }
  return torch::cat(logits, -1);
}

torch::Tensor token_losses_in_pieces(const LentHead& head,
                                     const torch::Tensor& x,
                                     const torch::Tensor& targets) {
  const RowPieces& pieces = head.lender.units().head;
  RunningSoftmax softmax(x.size(0), softmax_options(x));
  for (size_t piece = 0; piece < pieces.count(); ++piece) {
    const BorrowedWeights borrowed(&head.lender, pieces.unit(piece));
    softmax.add(rows_of_head(head, piece, x.scalar_type()), x, targets);
  }
  return softmax.losses();
}

LossAndGradients loss_in_pieces(const LentHead& head,
                                const torch::Tensor& x,
                                const torch::Tensor& targets,
                                double scale,
                                torch::ScalarType gradient_type) {
  const RowPieces& pieces = head.lender.units().head;
  RunningSoftmax softmax(x.size(0), softmax_options(x));
  LossAndGradients result;
  result.d_hidden = torch::zeros_like(x, x.options().dtype(gradient_type));
  result.d_weight = torch::zeros(head.weight.sizes(), head.weight.options().requires_grad(false));
  if (head.bias.defined()) {
    result.d_bias = torch::zeros(head.bias.sizes(), x.options().dtype(gradient_type));
  }
  const double factor = logit_gradient_factor(x.scalar_type(), x.size(0), scale);
  const auto forward = [&](size_t piece) {
    softmax.add(rows_of_head(head, piece, x.scalar_type()), x, targets);
  };
  const auto backward = [&](size_t piece) {
    const HeadRows rows = rows_of_head(head, piece, x.scalar_type());
    add_gradients(rows, x, targets, softmax, factor, result);
  };
  const size_t last = pieces.count() - 1;
  for (size_t piece = 0; piece < last; ++piece) {
    const BorrowedWeights borrowed(&head.lender, pieces.unit(piece));
    forward(piece);
  }
  {
    const BorrowedWeights borrowed(&head.lender, pieces.unit(last));
    forward(last);
    // Once more: so the lender sees the turn, and makes the piece before ready meanwhile.
    const BorrowedWeights turned(&head.lender, pieces.unit(last));
    backward(last);
  }
  result.loss = softmax.losses().sum() * scale;
  for (size_t piece = last; piece-- > 0;) {
    const BorrowedWeights borrowed(&head.lender, pieces.unit(piece));
    backward(piece);
  }
  if (factor != scale) {
    for (torch::Tensor* gradient : {&result.d_hidden, &result.d_weight, &result.d_bias}) {
      if (gradient->defined()) gradient->mul_(scale / factor);
    }
  }
  return result;
}

}  // namespace tril
