#include "tril/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tril/base/error.h"

namespace tril {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

void require(bool holds, const char* option, double value, const char* allowed) {
  if (!holds) throw ConfigError(fmt::format("{} {}: expected {}", option, value, allowed));
}

}  // namespace

void validate(const SamplingOptions& o) {
  require(o.temperature >= 0 && std::isfinite(o.temperature),
          "--temperature",
          o.temperature,
          "a finite number >= 0 (0 picks the most probable token)");
  require(o.top_k >= 0, "--top-k", static_cast<double>(o.top_k), "a whole number >= 0 (0: all)");
  require(o.top_p > 0 && o.top_p <= 1, "--top-p", o.top_p, "0 < p <= 1");
  require(o.min_p >= 0 && o.min_p <= 1, "--min-p", o.min_p, "0 <= p <= 1");
  require(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty),
          "--repetition-penalty",
          o.repetition_penalty,
          "a finite number > 0 (1: none)");
  for (const auto& [id, bias] : o.logit_bias) {
    require(id >= 0, "--logit-bias of token", static_cast<double>(id), "a token id >= 0");
    require(std::isfinite(bias), "--logit-bias", bias, "a finite number (-100 forbids a token)");
  }
}

int64_t Sampler::draw(std::span<const float> logits,
                      std::span<const int64_t> context,
                      double uniform) {
  collect(logits, context);
  const auto best = std::min_element(candidates_.begin(), candidates_.end(), more_probable);
  if (options_.temperature == 0) return best->id;

  // Relative to the highest logit, so that no temperature can overflow.
  const int64_t best_id = best->id;
  const double highest = best->value;
  if (options_.top_k > 0 && options_.top_k < static_cast<int64_t>(candidates_.size())) {
    const auto k = candidates_.begin() + options_.top_k;
    std::nth_element(candidates_.begin(), k, candidates_.end(), more_probable);
    candidates_.erase(k, candidates_.end());
  }
  for (Candidate& c : candidates_) c.value = std::exp((c.value - highest) / options_.temperature);
  filter();

  double total = 0;
  for (const Candidate& c : candidates_) total += c.value;
  double rest = uniform * total;
  for (const Candidate& c : candidates_) {
    rest -= c.value;
    if (rest < 0) return c.id;
  }
  // Rounding may leave a crumb: then the last candidate with any probability.
  for (auto c = candidates_.rbegin(); c != candidates_.rend(); ++c) {
    if (c->value > 0) return c->id;
  }
  return best_id;
}

/// Fills the candidates with logits, changed by bias and penalty.
void Sampler::collect(std::span<const float> logits, std::span<const int64_t> context) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      throw CheckpointError(
          fmt::format("the model's output is not finite (logit of token {} is {})", i, logits[i]));
    }
    candidates_[i] = {static_cast<int64_t>(i), static_cast<double>(logits[i])};
  }
  for (const auto& [id, bias] : options_.logit_bias) {
    const auto i = static_cast<size_t>(id);
    if (i < candidates_.size()) {
      candidates_[i].value = std::clamp(candidates_[i].value + bias, -kLargest, kLargest);
    }
  }
  if (options_.repetition_penalty == 1.0) return;
  seen_.assign(logits.size(), false);
  for (const int64_t id : context) {
    const auto i = static_cast<size_t>(id);
    if (i >= seen_.size() || seen_[i]) continue;
    seen_[i] = true;
    double& logit = candidates_[i].value;
    logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    logit = std::clamp(logit, -kLargest, kLargest);  // an extreme penalty must not make infinities
  }
}

/// min_p and top_p; leaves the candidates in the order of their ids, whatever the filters did.
void Sampler::filter() {
  if (options_.min_p > 0) {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.value < options_.min_p; });
  }
  if (options_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), more_probable);
    const double total = std::accumulate(
        candidates_.begin(), candidates_.end(), 0.0, [](double s, const Candidate& c) {
          return s + c.value;
        });
    double sum = 0;
    size_t n = 0;
    while (n < candidates_.size() && sum < options_.top_p * total) sum += candidates_[n++].value;
    candidates_.resize(n);
  }
  if (options_.top_k > 0 || options_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.id < b.id;
    });
  }
}

int64_t sample_token(std::span<const float> logits,
                     std::span<const int64_t> context,
                     const SamplingOptions& options,
                     double uniform) {
  return Sampler(options).draw(logits, context, uniform);
}

TokenLogProbabilities log_probabilities(std::span<const float> logits, int64_t id, int64_t n_top) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  const double log_sum = highest + std::log(sum);
  TokenLogProbabilities result;
  result.chosen = static_cast<double>(logits[static_cast<size_t>(id)]) - log_sum;
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), int64_t{0});
  const auto n = std::min<size_t>(static_cast<size_t>(n_top), ids.size());
  std::partial_sort(ids.begin(),
                    ids.begin() + static_cast<std::ptrdiff_t>(n),
                    ids.end(),
                    [&](int64_t a, int64_t b) {
                      const float la = logits[static_cast<size_t>(a)];
                      const float lb = logits[static_cast<size_t>(b)];
                      return la != lb ? la > lb : a < b;
                    });
  for (size_t i = 0; i < n; ++i) {
    result.top.emplace_back(ids[i],
                            static_cast<double>(logits[static_cast<size_t>(ids[i])]) - log_sum);
  }
  return result;
}

}  // namespace tril
