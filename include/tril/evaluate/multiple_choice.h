#pragma once
// Multiple choice by likelihood, in the form of HellaSwag: which ending does the model find the
// most probable?

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tril/model/gpt.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril {

struct Question {
  std::string context;
  std::vector<std::string> endings;  ///< two or more
  int64_t label = 0;                 ///< which of them is right
  std::string origin;                ///< "file.jsonl line 3": for messages
};

/// Reads a JSONL file: {"ctx": TEXT, "endings": [TEXT, ...], "label": INDEX} a line. Empty lines
/// are passed over; other keys too. DataError names file, line and what was expected.
std::vector<Question> read_questions(const std::filesystem::path& path);

struct MultipleChoiceOptions {
  torch::ScalarType precision = torch::kFloat32;
  std::function<bool()> should_stop = {};                             ///< polled once per question
  std::function<void(int64_t done, int64_t total)> on_progress = {};  ///< in questions
};

/// Each rule picks the ending with the highest score; a tie goes to the first.
struct MultipleChoiceResult {
  int64_t questions = 0;
  int64_t right_per_token = 0;  ///< mean log-probability of the ending's tokens: the main figure
  int64_t right_per_byte = 0;   ///< sum divided by the ending's bytes: comparable across tokenizers
  int64_t right_by_sum = 0;     ///< sum: favours short endings
  double chance = 0;            ///< mean over questions of 1 / endings

  double accuracy() const { return share(right_per_token); }
  /// Of the accuracy: sqrt(p (1 - p) / n).
  double standard_error() const;
  double share(int64_t right) const {
    return static_cast<double>(right) / static_cast<double>(questions);
  }
};

/// An ending follows its context after one space, unless it begins with white space itself. Of a
/// context too long for the model the end is kept. Nothing when `should_stop` said so.
std::optional<MultipleChoiceResult> answer_questions(GPT& model,
                                                     const Tokenizer& tokenizer,
                                                     const std::vector<Question>& questions,
                                                     const MultipleChoiceOptions& options);

}  // namespace tril
