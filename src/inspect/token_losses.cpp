#include "tril/inspect/token_losses.h"

#include <algorithm>
#include <cmath>

#include "tril/base/error.h"
#include "tril/model/evaluation_mode.h"

namespace tril {

std::vector<TokenSurprise> token_surprise(GPT& model,
                                          std::span<const int64_t> ids,
                                          int64_t n_guesses) {
  if (ids.size() < 2) {
    throw DataError("a text of one token holds nothing to predict: give at least 2 tokens");
  }
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);
  const torch::Device device = model->token_embedding->weight.device();
  const auto n_targets = static_cast<int64_t>(ids.size()) - 1;
  const int64_t context = model->config().context_length;
  n_guesses = std::min(n_guesses, model->config().vocab_size);
  const torch::Tensor all =
      torch::tensor(torch::ArrayRef<int64_t>(ids.data(), ids.size()), torch::kInt64).to(device);

  std::vector<TokenSurprise> result;
  for (int64_t begin = 0; begin < n_targets; begin += context) {
    const int64_t n = std::min(context, n_targets - begin);
    const torch::Tensor logits = model->forward(all.narrow(0, begin, n).unsqueeze(0))[0];  // (n, V)
    const torch::Tensor log_p = torch::log_softmax(logits.to(torch::kFloat64), /*dim=*/-1);
    const torch::Tensor targets = all.narrow(0, begin + 1, n).unsqueeze(1);  // (n, 1)
    const torch::Tensor chosen = log_p.gather(1, targets);                   // (n, 1)
    const torch::Tensor ranks = log_p.gt(chosen).sum(1).to(torch::kCPU);     // (n)
    const auto [top, top_ids] = log_p.topk(n_guesses, /*dim=*/-1);           // (n, k)
    const torch::Tensor losses = chosen.neg().squeeze(1).to(torch::kCPU).contiguous();
    const torch::Tensor p = top.exp().to(torch::kCPU).contiguous();
    const torch::Tensor guess_ids = top_ids.to(torch::kCPU).contiguous();
    for (int64_t i = 0; i < n; ++i) {
      TokenSurprise surprise;
      surprise.loss = losses.const_data_ptr<double>()[i];
      if (!std::isfinite(surprise.loss)) {
        throw CheckpointError("the model's output is not finite");
      }
      surprise.rank = ranks.const_data_ptr<int64_t>()[i];
      for (int64_t k = 0; k < n_guesses; ++k) {
        surprise.guesses.push_back({guess_ids.const_data_ptr<int64_t>()[i * n_guesses + k],
                                    p.const_data_ptr<double>()[i * n_guesses + k]});
      }
      result.push_back(std::move(surprise));
    }
  }
  return result;
}

}  // namespace tril
