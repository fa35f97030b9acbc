#include "tril/model/loss.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "loss_kernel.h"
#include "tril/model/autocast.h"
#include "tril/model/linear.h"
#include "tril/model/matrix_product.h"
#include "tril/model/step_phase.h"
#include "vocabulary_pieces.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Log-probabilities from logits (rows, padded V), at least float32; -inf in the padding.
torch::Tensor log_probabilities(torch::Tensor logits, int64_t vocab_size) {
  if (logits.scalar_type() != torch::kFloat64) logits = logits.to(torch::kFloat32);
  const int64_t n_padded = logits.size(1) - vocab_size;
  if (n_padded > 0) {
    logits.narrow(1, vocab_size, n_padded).fill_(-std::numeric_limits<double>::infinity());
  }
  return torch::log_softmax(logits, /*dim=*/1);
}

template <typename T, typename Number>
void cross_entropy_rows(torch::Tensor& logits,
                        const torch::Tensor& targets,
                        int64_t vocab_size,
                        double scale,
                        torch::Tensor& losses) {
  const int64_t columns = logits.size(1);
  auto* p = reinterpret_cast<Number*>(logits.mutable_data_ptr<T>());
  const auto* target = targets.const_data_ptr<int64_t>();
  auto* loss = losses.mutable_data_ptr<float>();
  const int64_t grain = std::max<int64_t>(1, 16384 / columns);
  const auto kernel = cross_entropy_kernel<Number>();
  at::parallel_for(0, logits.size(0), grain, [&](int64_t begin, int64_t end) {
    kernel(p + begin * columns,
           target + begin,
           end - begin,
           columns,
           vocab_size,
           static_cast<float>(scale),
           loss + begin);
  });
}

/// Turns logits (rows, padded V) into their gradient, (softmax - one_hot(target)) * scale, in their
/// own memory where they are on the CPU; returns the losses, (rows).
torch::Tensor cross_entropy_and_gradient(torch::Tensor& logits,
                                         const torch::Tensor& targets,
                                         int64_t vocab_size,
                                         double scale) {
  const auto type = logits.scalar_type();
  if (logits.device().is_cpu() && (type == torch::kFloat32 || type == torch::kBFloat16)) {
    torch::Tensor losses = torch::empty({logits.size(0)}, torch::kFloat32);
    if (type == torch::kFloat32) {
      cross_entropy_rows<float, float>(logits, targets, vocab_size, scale, losses);
    } else {
      cross_entropy_rows<at::BFloat16, Bf16>(logits, targets, vocab_size, scale, losses);
    }
    return losses;
  }
  torch::Tensor p = log_probabilities(logits, vocab_size);
  const torch::Tensor target = targets.unsqueeze(1);  // (rows, 1)
  const torch::Tensor losses = -p.gather(1, target).squeeze(1);
  p.exp_();
  p.scatter_add_(1, target, torch::full({p.size(0), 1}, -1.0, p.options()));
  logits = p.mul_(scale).to(type);
  return losses;
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& hidden,               // (N, C)
                               const torch::Tensor& weight,               // (padded V, C)
                               const std::optional<torch::Tensor>& bias,  // (padded V)
                               const torch::Tensor& targets,              // (N)
                               int64_t vocab_size,
                               double scale,
                               WeightLender* lender) {
    const auto dtype = product_type(hidden);
    const AutocastGuard explicit_casts(hidden.device().type(), torch::kFloat32);
    const torch::Tensor x = hidden.to(dtype);
    const int64_t n_rows = x.size(0);
    const double row_scale = scale / static_cast<double>(n_rows);
    if (lender != nullptr) {
      const LossAndGradients all =
          loss_in_pieces({*lender, weight, bias.value_or(torch::Tensor()), vocab_size},
                         x,
                         targets,
                         row_scale,
                         weight.scalar_type());
      ctx->save_for_backward({all.d_hidden.to(hidden.scalar_type()), all.d_weight, all.d_bias});
      return all.loss;
    }
    const torch::Tensor w = weight.to(dtype);
    const torch::Tensor b = bias ? bias->to(dtype) : torch::Tensor();
    const int64_t chunk_rows = loss_chunk_rows(w.size(0));
    const auto sum_dtype = weight.scalar_type();
    const double factor = logit_gradient_factor(dtype, std::min(chunk_rows, n_rows), row_scale);
    torch::Tensor dw, db;
    std::vector<torch::Tensor> losses, dx;
    for (int64_t first = 0; first < n_rows; first += chunk_rows) {
      const int64_t rows = std::min(chunk_rows, n_rows - first);
      const torch::Tensor x_chunk = x.narrow(0, first, rows);
      torch::Tensor d_logits = linear_product(x_chunk, w, b);  // (rows, padded V)
      losses.push_back(
          cross_entropy_and_gradient(d_logits, targets.narrow(0, first, rows), vocab_size, factor));
      dx.push_back(input_gradient(d_logits, w).to(hidden.scalar_type()));  // (rows, C)
      if (dw.defined()) {
        add_weight_gradient(dw, d_logits, x_chunk);
      } else {
        dw = weight_gradient(d_logits, x_chunk).to(weight.scalar_type());  // (padded V, C)
      }
      if (bias) {
        const torch::Tensor db_chunk = d_logits.sum(0, /*keepdim=*/false, sum_dtype);
        db = db.defined() ? db + db_chunk : db_chunk;
      }
    }
    torch::Tensor d_hidden = dx.size() == 1 ? dx[0] : torch::cat(dx, 0);
    if (factor != row_scale) {
      for (torch::Tensor* gradient : {&d_hidden, &dw, &db}) {
        if (gradient->defined()) gradient->mul_(row_scale / factor);
      }
    }
    ctx->save_for_backward({d_hidden, dw, db});
    return (losses.size() == 1 ? losses[0] : torch::cat(losses, 0)).sum() * row_scale;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor& grad = grad_outputs[0];
    // The usual case, loss.backward(), costs nothing on the CPU; on a device asking would wait.
    const bool is_one = grad.device().is_cpu() && grad.item<double>() == 1.0;
    const auto scaled = [&](const torch::Tensor& t) {
      return !t.defined() || is_one ? t : t * grad;
    };
    return {scaled(saved[0]), scaled(saved[1]), scaled(saved[2]), {}, {}, {}, {}};
  }
};

}  // namespace

int64_t loss_chunk_rows(int64_t padded_vocab_size) {
  constexpr int64_t kLogitsPerChunk = int64_t{512} * 50304;
  return std::max<int64_t>(64, kLogitsPerChunk / padded_vocab_size);
}

double logit_gradient_factor(torch::ScalarType type, int64_t rows, double scale) {
  if (type != torch::kFloat16) return scale;
  constexpr double kRows = 1024;  // of numbers up to 64: 65 536 is fp16's limit
  return std::min(1.0, kRows / static_cast<double>(rows));
}

int64_t scored_chunk_rows(int64_t padded_vocab_size) {
  return std::min<int64_t>(1024, loss_chunk_rows(padded_vocab_size));
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, -2), targets.flatten());
}

torch::Tensor linear_cross_entropy(const torch::Tensor& hidden,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias,
                                   const torch::Tensor& targets,
                                   int64_t vocab_size,
                                   double scale,
                                   WeightLender* lender) {
  const bool in_pieces = lender != nullptr && lender->units().head.count() > 1;
  // One piece is the whole head; its gradient is made at once.
  const BorrowedWeights whole(in_pieces ? nullptr : lender,
                              lender == nullptr ? 0 : lender->units().head.unit(0));
  return LinearCrossEntropy::apply(hidden.flatten(0, -2),  // (B, T, C) -> (B*T, C)
                                   weight,
                                   bias.defined() ? std::optional(bias) : std::nullopt,
                                   targets.flatten(),
                                   vocab_size,
                                   scale,
                                   in_pieces ? lender : nullptr);
}

torch::Tensor token_losses(GPT& model, const torch::Tensor& ids, const torch::Tensor& targets) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden = model->forward_hidden(ids).flatten(0, 1);  // (B*T, C)
  const torch::Tensor target = targets.flatten();                         // (B*T)
  const torch::Tensor weight = model->head_weight();
  if (WeightLender* lender = model->weight_lender()) {
    const LentHead head{*lender, weight, model->head_bias(), model->config().vocab_size};
    return token_losses_in_pieces(head, hidden, target).view(ids.sizes());
  }
  const int64_t chunk_rows = scored_chunk_rows(weight.size(0));
  std::vector<torch::Tensor> losses;
  for (int64_t first = 0; first < hidden.size(0); first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, hidden.size(0) - first);
    const torch::Tensor log_p =
        log_probabilities(linear_map(hidden.narrow(0, first, rows), weight, model->head_bias()),
                          model->config().vocab_size);
    losses.push_back(-log_p.gather(1, target.narrow(0, first, rows).unsqueeze(1)).squeeze(1));
  }
  return torch::cat(losses, 0).view(ids.sizes());  // (B, T)
}

torch::Tensor training_loss(GPT& model,
                            const torch::Tensor& ids,
                            const torch::Tensor& targets,
                            double scale) {
  torch::Tensor hidden;
  {
    const StepPhase phase(kPhaseForward);
    hidden = model->forward_hidden(ids);
  }
  const StepPhase phase(kPhaseLoss);
  return linear_cross_entropy(hidden,
                              model->head_weight(),
                              model->head_bias(),
                              targets,
                              model->config().vocab_size,
                              scale,
                              model->weight_lender());
}

}  // namespace tril
