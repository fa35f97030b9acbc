#include "tril/evaluate/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "tril/base/error.h"
#include "tril/data/batch.h"
#include "tril/model/autocast.h"
#include "tril/model/evaluation_mode.h"
#include "tril/model/loss.h"

namespace tril {
namespace {

/// First ids of the windows to score: all at stride T, or `max_tokens`' worth of them, evenly
/// spaced.
std::vector<int64_t> window_starts(int64_t n_tokens, int64_t context_length, int64_t max_tokens) {
  const int64_t n_targets = n_tokens - 1;
  const int64_t n_windows = (n_targets + context_length - 1) / context_length;
  int64_t n_taken = n_windows;
  if (max_tokens > 0 && max_tokens < n_targets) {
    n_taken = std::min(n_windows, std::max<int64_t>(1, max_tokens / context_length));
  }
  std::vector<int64_t> starts(static_cast<size_t>(n_taken));
  for (int64_t i = 0; i < n_taken; ++i) {
    starts[static_cast<size_t>(i)] = i * n_windows / n_taken * context_length;
  }
  return starts;
}

/// The ids are known to be the tokenizer's (make_batch checks the file, evaluate() the file's
/// vocabulary).
int64_t count_bytes(const torch::Tensor& targets, const std::vector<int64_t>& token_sizes) {
  const torch::Tensor ids = targets.to(torch::kCPU).contiguous();
  const auto* data = ids.const_data_ptr<int64_t>();
  int64_t bytes = 0;
  for (int64_t i = 0; i < ids.numel(); ++i) bytes += token_sizes[static_cast<size_t>(data[i])];
  return bytes;
}

/// Of a mean over all tokens, from sums over windows (a ratio estimate: each window is one draw).
double standard_error(std::span<const double> nats, std::span<const double> tokens, double loss) {
  const auto n = static_cast<double>(nats.size());
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  double squares = 0;
  double total = 0;
  for (size_t i = 0; i < nats.size(); ++i) {
    squares += (nats[i] - tokens[i] * loss) * (nats[i] - tokens[i] * loss);
    total += tokens[i];
  }
  return std::sqrt(squares * n / (n - 1)) / total;
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss());
}

double Evaluation::bits_per_byte() const {
  return nats / (std::numbers::ln2 * static_cast<double>(bytes));
}

std::optional<Evaluation> evaluate(GPT& model,
                                   const TokenFile& tokens,
                                   const Tokenizer& tokenizer,
                                   const EvaluateOptions& options) {
  if (tokens.size() < 2) {
    throw DataError(fmt::format("{}: {} tokens; to score a text it needs at least 2",
                                tokens.path().string(),
                                tokens.size()));
  }
  if (tokens.header().vocab_size > tokenizer.vocab_size()) {
    throw DataError(fmt::format("{}: made with a vocabulary of {} ids, the tokenizer has {}",
                                tokens.path().string(),
                                tokens.header().vocab_size,
                                tokenizer.vocab_size()));
  }
  if (tokenizer.vocab_size() > model->config().vocab_size) {
    throw DataError(fmt::format("the tokenizer has {} ids, the model's vocab_size is {}",
                                tokenizer.vocab_size(),
                                model->config().vocab_size));
  }
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);
  const torch::Device device = model->token_embedding->weight.device();
  const AutocastGuard autocast(device.type(), options.precision);

  std::vector<int64_t> token_sizes;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    token_sizes.push_back(static_cast<int64_t>(tokenizer.token_bytes(id).size()));
  }
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    token_sizes[static_cast<size_t>(token.id)] = 0;  // the end of a text is none of its bytes
  }

  const int64_t t = model->config().context_length;
  const auto starts = window_starts(tokens.size(), t, options.max_tokens);
  const auto n_windows = static_cast<int64_t>(starts.size());
  const int64_t batch_size =
      options.batch_size > 0 ? options.batch_size : std::max<int64_t>(1, kEvaluationTokens / t);

  Evaluation result;
  const int64_t n_processes = options.group == nullptr ? 1 : options.group->size();
  const int64_t rank = options.group == nullptr ? 0 : options.group->rank();
  bool stopped = false;
  std::vector<torch::Tensor> window_nats;  // stay on the device until the end
  std::vector<double> window_tokens;
  for (int64_t first = 0, batch_number = 0; first < n_windows && !stopped; ++batch_number) {
    // Windows of one batch are equally long; the last of the file may be shorter and goes alone.
    const int64_t length = std::min(t, tokens.size() - 1 - starts[static_cast<size_t>(first)]);
    int64_t n = 1;
    while (n < batch_size && first + n < n_windows &&
           starts[static_cast<size_t>(first + n)] + length < tokens.size()) {
      ++n;
    }
    window_tokens.insert(window_tokens.end(), static_cast<size_t>(n), static_cast<double>(length));
    result.tokens += n * length;
    if (batch_number % n_processes == rank) {
      stopped = options.should_stop && options.should_stop();
      if (stopped) break;
      const Batch batch =
          make_batch(tokens, {starts.data() + first, static_cast<size_t>(n)}, length, device);
      window_nats.push_back(token_losses(model, batch.inputs, batch.targets)
                                .sum(/*dim=*/{1}, /*keepdim=*/false, torch::kFloat64));  // (B)
      result.bytes += count_bytes(batch.targets, token_sizes);
    } else {
      window_nats.push_back(torch::zeros(
          {n}, torch::TensorOptions().dtype(torch::kFloat64).device(device)));  // another's
    }
    first += n;
    if (options.on_progress) options.on_progress(result.tokens, n_windows * t);
  }
  if (options.group == nullptr && stopped) return std::nullopt;
  torch::Tensor all_nats = torch::zeros({n_windows}, torch::kFloat64);
  if (!stopped) all_nats.copy_(torch::cat(window_nats));
  if (options.group != nullptr) {
    torch::Tensor counts =
        torch::tensor({stopped ? int64_t{1} : int64_t{0}, result.bytes}, torch::kInt64);
    options.group->all_reduce(counts, Combine::kSum);
    options.group->all_reduce(all_nats, Combine::kSum);  // each window's from one process: exact
    if (counts[0].item<int64_t>() > 0) return std::nullopt;
    result.bytes = counts[1].item<int64_t>();
  }
  result.nats = all_nats.sum().item<double>();
  result.standard_error = standard_error(
      {all_nats.const_data_ptr<double>(), window_tokens.size()}, window_tokens, result.loss());
  result.whole = result.tokens == tokens.size() - 1;
  return result;
}

}  // namespace tril
