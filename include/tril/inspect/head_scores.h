#pragma once
// What a head does, in numbers. No Torch here: a map is a row-major vector.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tril {

/// Means over the rows i >= 1 of one head's (T, T) map a, where nothing else is said.
struct HeadScores {
  double entropy = 0;        ///< of a row, in nats
  double entropy_share = 0;  ///< entropy / ln(i + 1), that of a row spread evenly: 0 sharp, 1 broad
  double distance = 0;       ///< sum over j of a[i][j] (i - j), in tokens
  double first_token = 0;    ///< a[i][0]
  double previous_token = 0;  ///< a[i][i-1]
  double itself = 0;          ///< a[i][i]
  /// Over the rows whose last `match` tokens occurred before: the weight on the tokens that came
  /// next at that time (what a copying head reads, Olsson et al. 2022), and on the earlier tokens
  /// themselves.
  double induction = 0;
  double earlier_mention = 0;
  /// What a head that looks everywhere alike would get for these two.
  double induction_by_chance = 0;
  double mention_by_chance = 0;
  int64_t n_repeats = 0;  ///< such rows; 0: the two scores say nothing
  std::string role = {};  ///< see head_role
};

/// Scores of one map over these tokens. `match` >= 1: how many tokens must repeat.
HeadScores score_head(std::span<const float> weights, std::span<const int64_t> ids, int64_t match);

/// Scores over several texts: rows count alike, the two repeat scores by their number of repeats.
/// At least one; all of maps of one size.
HeadScores average_scores(std::span<const HeadScores> scores);

/// The word for what a head does most: "induction" or "earlier mention" when that score is at least
/// 0.25 and four times chance; else "previous token", "first token" or "itself" from 0.4 on; else
/// "broad" from an entropy share of 0.75 on; "local" within 8 tokens; "mixed".
std::string head_role(const HeadScores& scores);

/// How many tokens must repeat to count as a mention: 1 where tokens are words or parts of them, 3
/// where they are characters or bytes (a letter repeats all the time).
int64_t default_match(const std::string& tokenizer_kind);

}  // namespace tril
