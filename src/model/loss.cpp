#include "tril/model/loss.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "tril/model/autocast.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The precision in which autocast wants matrix multiplications on x's device.
torch::ScalarType matmul_dtype(const torch::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

/// Rows of log-probabilities: (rows, C) x (padded V, C) -> (rows, padded V), at least float32.
torch::Tensor chunk_log_probabilities(const torch::Tensor& x,
                                      const torch::Tensor& weight,
                                      const torch::Tensor& bias,
                                      int64_t vocab_size) {
  torch::Tensor logits = torch::linear(x, weight, bias);
  if (logits.scalar_type() != torch::kFloat64) logits = logits.to(torch::kFloat32);
  const int64_t n_padded = logits.size(1) - vocab_size;
  if (n_padded > 0) {
    logits.narrow(1, vocab_size, n_padded).fill_(-std::numeric_limits<double>::infinity());
  }
  return torch::log_softmax(logits, /*dim=*/1);
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& hidden,               // (N, C)
                               const torch::Tensor& weight,               // (padded V, C)
                               const std::optional<torch::Tensor>& bias,  // (padded V)
                               const torch::Tensor& targets,              // (N)
                               int64_t vocab_size,
                               double scale) {
    const auto dtype = matmul_dtype(hidden);
    const AutocastGuard explicit_casts(hidden.device().type(), torch::kFloat32);
    const torch::Tensor x = hidden.to(dtype);
    const torch::Tensor w = weight.to(dtype);
    const torch::Tensor b = bias ? bias->to(dtype) : torch::Tensor();

    const int64_t n_rows = x.size(0);
    const double row_scale = scale / static_cast<double>(n_rows);
    const int64_t chunk_rows = loss_chunk_rows(w.size(0));
    torch::Tensor sum, dw, db;
    std::vector<torch::Tensor> dx;
    for (int64_t first = 0; first < n_rows; first += chunk_rows) {
      const int64_t rows = std::min(chunk_rows, n_rows - first);
      const torch::Tensor x_chunk = x.narrow(0, first, rows);
      const torch::Tensor target = targets.narrow(0, first, rows).unsqueeze(1);  // (rows, 1)
      torch::Tensor chunk = chunk_log_probabilities(x_chunk, w, b, vocab_size);
      const torch::Tensor chunk_sum = chunk.gather(1, target).sum();
      sum = sum.defined() ? sum + chunk_sum : chunk_sum;

      // d loss / d logits = (softmax - one_hot(target)) * row_scale, in the memory of the logits.
      chunk.exp_();
      chunk.scatter_add_(1, target, torch::full({rows, 1}, -1.0, chunk.options()));
      chunk.mul_(row_scale);
      const torch::Tensor d_logits = chunk.to(dtype);                 // (rows, padded V)
      dx.push_back(torch::mm(d_logits, w).to(hidden.scalar_type()));  // (rows, C)
      const torch::Tensor d_logits_t = d_logits.t();
      if (!dw.defined()) {
        dw = torch::mm(d_logits_t, x_chunk).to(weight.scalar_type());  // (padded V, C)
      } else if (dtype == weight.scalar_type()) {
        dw.addmm_(d_logits_t, x_chunk);
      } else {
        dw.add_(torch::mm(d_logits_t, x_chunk));
      }
      if (bias) {
        const torch::Tensor db_chunk = chunk.sum(0);
        db = db.defined() ? db + db_chunk : db_chunk;
      }
    }
    ctx->save_for_backward({dx.size() == 1 ? dx[0] : torch::cat(dx, 0), dw, db});
    return torch::rsub(sum * row_scale, 0.0);  // 0 - x: a loss of zero is not written -0
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto saved = ctx->get_saved_variables();
    const torch::Tensor& grad = grad_outputs[0];
    // The usual case, loss.backward(), costs nothing on the CPU; on a device asking would wait.
    const bool is_one = grad.device().is_cpu() && grad.item<double>() == 1.0;
    const auto scaled = [&](const torch::Tensor& t) {
      return !t.defined() || is_one ? t : t * grad;
    };
    return {scaled(saved[0]), scaled(saved[1]), scaled(saved[2]), {}, {}, {}};
  }
};

}  // namespace

int64_t loss_chunk_rows(int64_t padded_vocab_size) {
  constexpr int64_t kLogitsPerChunk = int64_t{512} * 50304;
  return std::max<int64_t>(64, kLogitsPerChunk / padded_vocab_size);
}

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, -2), targets.flatten());
}

torch::Tensor linear_cross_entropy(const torch::Tensor& hidden,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias,
                                   const torch::Tensor& targets,
                                   int64_t vocab_size,
                                   double scale) {
  return LinearCrossEntropy::apply(hidden.flatten(0, -2),  // (B, T, C) -> (B*T, C)
                                   weight,
                                   bias.defined() ? std::optional(bias) : std::nullopt,
                                   targets.flatten(),
                                   vocab_size,
                                   scale);
}

torch::Tensor token_losses(GPT& model, const torch::Tensor& ids, const torch::Tensor& targets) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor hidden = model->forward_hidden(ids).flatten(0, 1);  // (B*T, C)
  const torch::Tensor target = targets.flatten();                         // (B*T)
  const torch::Tensor weight = model->head_weight();
  const int64_t chunk_rows = loss_chunk_rows(weight.size(0));
  std::vector<torch::Tensor> losses;
  for (int64_t first = 0; first < hidden.size(0); first += chunk_rows) {
    const int64_t rows = std::min(chunk_rows, hidden.size(0) - first);
    const torch::Tensor log_p = chunk_log_probabilities(
        hidden.narrow(0, first, rows), weight, model->head_bias(), model->config().vocab_size);
    losses.push_back(-log_p.gather(1, target.narrow(0, first, rows).unsqueeze(1)).squeeze(1));
  }
  return torch::cat(losses, 0).view(ids.sizes());  // (B, T)
}

torch::Tensor training_loss(GPT& model,
                            const torch::Tensor& ids,
                            const torch::Tensor& targets,
                            double scale) {
  return linear_cross_entropy(model->forward_hidden(ids),
                              model->head_weight(),
                              model->head_bias(),
                              targets,
                              model->config().vocab_size,
                              scale);
}

}  // namespace tril
