#include "tril/inspect/head_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tril {
namespace {

/// Do the `match` tokens that end at i and at j agree?
bool repeats(std::span<const int64_t> ids, size_t i, size_t j, size_t match) {
  if (j + 1 < match || i + 1 < match) return false;
  for (size_t k = 0; k < match; ++k) {
    if (ids[i - k] != ids[j - k]) return false;
  }
  return true;
}

}  // namespace

HeadScores score_head(std::span<const float> weights, std::span<const int64_t> ids, int64_t match) {
  const size_t n = ids.size();
  assert(weights.size() == n * n && match >= 1);
  HeadScores s;
  for (size_t i = 1; i < n; ++i) {
    const auto row = weights.subspan(i * n, i + 1);
    double entropy = 0;
    for (size_t j = 0; j <= i; ++j) {
      const double w = row[j];
      if (w > 0) entropy -= w * std::log(w);
      s.distance += w * static_cast<double>(i - j);
    }
    s.entropy += entropy;
    s.entropy_share += entropy / std::log(static_cast<double>(i + 1));
    s.first_token += row[0];
    s.previous_token += row[i - 1];
    s.itself += row[i];

    double next = 0, same = 0;
    int64_t n_mentions = 0;
    for (size_t j = 0; j + 1 < i; ++j) {
      if (!repeats(ids, i, j, static_cast<size_t>(match))) continue;
      ++n_mentions;
      next += row[j + 1];
      same += row[j];
    }
    if (n_mentions == 0) continue;
    ++s.n_repeats;
    s.induction += next;
    s.earlier_mention += same;
    const double chance = static_cast<double>(n_mentions) / static_cast<double>(i + 1);
    s.induction_by_chance += chance;
    s.mention_by_chance += chance;
  }
  if (n > 1) {
    const auto rows = static_cast<double>(n - 1);
    for (double* sum : {&s.entropy,
                        &s.entropy_share,
                        &s.distance,
                        &s.first_token,
                        &s.previous_token,
                        &s.itself}) {
      *sum /= rows;
    }
  }
  if (s.n_repeats > 0) {
    const auto rows = static_cast<double>(s.n_repeats);
    for (double* sum :
         {&s.induction, &s.earlier_mention, &s.induction_by_chance, &s.mention_by_chance}) {
      *sum /= rows;
    }
  }
  s.role = head_role(s);
  return s;
}

HeadScores average_scores(std::span<const HeadScores> scores) {
  HeadScores mean;
  for (const HeadScores& s : scores) {
    const double share = 1.0 / static_cast<double>(scores.size());
    mean.entropy += share * s.entropy;
    mean.entropy_share += share * s.entropy_share;
    mean.distance += share * s.distance;
    mean.first_token += share * s.first_token;
    mean.previous_token += share * s.previous_token;
    mean.itself += share * s.itself;
    const auto repeats = static_cast<double>(s.n_repeats);
    mean.n_repeats += s.n_repeats;
    mean.induction += repeats * s.induction;
    mean.earlier_mention += repeats * s.earlier_mention;
    mean.induction_by_chance += repeats * s.induction_by_chance;
    mean.mention_by_chance += repeats * s.mention_by_chance;
  }
  if (mean.n_repeats > 0) {
    for (double* sum : {&mean.induction,
                        &mean.earlier_mention,
                        &mean.induction_by_chance,
                        &mean.mention_by_chance}) {
      *sum /= static_cast<double>(mean.n_repeats);
    }
  }
  mean.role = head_role(mean);
  return mean;
}

std::string head_role(const HeadScores& s) {
  const bool copies = s.induction >= 0.25 && s.induction >= 4 * s.induction_by_chance;
  const bool recalls = s.earlier_mention >= 0.25 && s.earlier_mention >= 4 * s.mention_by_chance;
  if (copies && s.induction >= s.earlier_mention) return "induction";
  if (recalls) return "earlier mention";
  const double strongest = std::max({s.previous_token, s.first_token, s.itself});
  if (strongest >= 0.4) {
    if (strongest == s.previous_token) return "previous token";
    return strongest == s.first_token ? "first token" : "itself";
  }
  if (s.entropy_share >= 0.75) return "broad";
  return s.distance <= 8 ? "local" : "mixed";
}

int64_t default_match(const std::string& tokenizer_kind) {
  return tokenizer_kind == "char" || tokenizer_kind == "byte" ? 3 : 1;
}

}  // namespace tril
