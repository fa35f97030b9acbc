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

struct Candidate {
  int64_t id;
  double value;  // logit, then probability relative to the highest
};

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

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
}

int64_t sample_token(std::span<const float> logits,
                     std::span<const int64_t> context,
                     const SamplingOptions& options,
                     double uniform) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      throw CheckpointError(
          fmt::format("the model's output is not finite (logit of token {} is {})", i, logits[i]));
    }
    candidates[i] = {static_cast<int64_t>(i), static_cast<double>(logits[i])};
  }

  if (options.repetition_penalty != 1.0) {
    std::vector<bool> seen(logits.size(), false);
    for (const int64_t id : context) {
      const auto i = static_cast<size_t>(id);
      if (i >= seen.size() || seen[i]) continue;
      seen[i] = true;
      double& logit = candidates[i].value;
      logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
      logit =
          std::clamp(logit, -kLargest, kLargest);  // an extreme penalty must not make infinities
    }
  }

  const auto best = std::min_element(candidates.begin(), candidates.end(), more_probable);
  if (options.temperature == 0) return best->id;

  // Relative to the highest logit, so that no temperature can overflow.
  const double highest = best->value;
  for (Candidate& c : candidates) c.value = std::exp((c.value - highest) / options.temperature);

  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(candidates.size())) {
    const auto k = candidates.begin() + options.top_k;
    std::nth_element(candidates.begin(), k, candidates.end(), more_probable);
    candidates.erase(k, candidates.end());
  }
  if (options.min_p > 0) {
    std::erase_if(candidates, [&](const Candidate& c) { return c.value < options.min_p; });
  }
  if (options.top_p < 1) {
    std::sort(candidates.begin(), candidates.end(), more_probable);
    const double total = std::accumulate(
        candidates.begin(), candidates.end(), 0.0, [](double s, const Candidate& c) {
          return s + c.value;
        });
    double sum = 0;
    size_t n = 0;
    while (n < candidates.size() && sum < options.top_p * total) sum += candidates[n++].value;
    candidates.resize(n);
  }

  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.id < b.id;  // one order whatever the filters did
  });
  double total = 0;
  for (const Candidate& c : candidates) total += c.value;
  double rest = uniform * total;
  for (const Candidate& c : candidates) {
    rest -= c.value;
    if (rest < 0) return c.id;
  }
  // Rounding may leave a crumb: then the last candidate with any probability.
  for (auto c = candidates.rbegin(); c != candidates.rend(); ++c) {
    if (c->value > 0) return c->id;
  }
  return best->id;
}

}  // namespace tril
