#pragma once
// Attention maps for people and programs: a page, an SVG, JSON, CSV, and text for a terminal.
// No Torch here.

#include <cstdint>
#include <string>
#include <vector>

#include "tril/base/json.h"
#include "tril/inspect/head_scores.h"

namespace tril {

/// One head of the report.
struct ReportedHead {
  int64_t block = 0;
  int64_t head = 0;
  std::vector<float> weights;  ///< (T, T), row by row, zeros above the diagonal
  HeadScores scores;
};

struct AttentionReport {
  std::string run;  ///< what to call the model
  int64_t step = 0;
  int64_t n_blocks = 0;
  int64_t n_head = 0;
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;  ///< bytes of each
  std::vector<ReportedHead> heads;
  int64_t match = 1;           ///< tokens that must repeat, for the two repeat scores
  double path_difference = 0;  ///< see AttentionMaps
  int64_t n_texts = 1;         ///< over which the scores were averaged
};

/// A token as it can be shown: invalid bytes as \xNN, control characters as \n, \t, ….
std::string visible_token(std::string_view bytes);

/// One self-contained page: maps with hover, the text coloured by what a token looks at, scores.
std::string attention_page(const AttentionReport& report);

/// Rough size of that page in bytes.
int64_t attention_page_bytes(size_t n_tokens, size_t n_heads);

/// All maps of the report side by side (one: large, with the tokens along its edges).
std::string attention_svg(const AttentionReport& report);

/// {"run", "step", "tokens": [{"id", "text"}], "match", "path_difference",
///  "heads": [{"block", "head", "role", scores…, "weights": [[row 0], [row 1], …]}]}; row i has
/// i + 1 numbers: the mask leaves no others.
OrderedJson attention_json(const AttentionReport& report);

/// block,head,query,key,query_token,key_token,weight: one line per pair that the mask allows.
std::string attention_csv(const AttentionReport& report);

/// For a terminal: the heads and what they do, the strongest first.
std::string attention_table(const AttentionReport& report);

/// For a terminal: one map, a row per token, shades from light to dark; the last `columns` tokens
/// where it is too wide.
std::string attention_text_map(const AttentionReport& report,
                               const ReportedHead& head,
                               size_t columns,
                               bool unicode);

/// The head whose scores stand out most: the one that looks back to an earlier mention, if any.
const ReportedHead& most_telling_head(const AttentionReport& report);

/// The row of a head to begin with: the one that looks most at an earlier mention or at what came
/// next then, long mentions before short ones; the last row where nothing repeats.
size_t telling_row(const AttentionReport& report, const ReportedHead& head);

}  // namespace tril
