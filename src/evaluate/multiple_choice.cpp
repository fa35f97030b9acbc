#include "tril/evaluate/multiple_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/model/autocast.h"
#include "tril/model/evaluation_mode.h"
#include "tril/model/loss.h"

namespace tril {
namespace {

constexpr int64_t kMaxEndings = 64;

/// A label as a number, or as HellaSwag's files have it, as text.
std::optional<int64_t> read_label(const Json& json) {
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  const bool is_number =
      !text.empty() && text.size() < 4 &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? std::optional<int64_t>(std::stoll(text)) : std::nullopt;
}

Question parse_question(const Json& json, const std::string& origin) {
  const auto refuse = [&](const std::string& problem) {
    throw DataError(fmt::format(
        "{}: {}; expected {{\"ctx\": TEXT, \"endings\": [TEXT, TEXT, ...], \"label\": INDEX}}",
        origin,
        problem));
  };
  Question question;
  question.origin = origin;
  if (!json.is_object()) refuse("no object");
  if (!json.contains("ctx") || !json["ctx"].is_string()) refuse("\"ctx\" is no text");
  question.context = json["ctx"].get<std::string>();
  if (!json.contains("endings") || !json["endings"].is_array()) refuse("\"endings\" is no list");
  for (const Json& ending : json["endings"]) {
    if (!ending.is_string() || ending.get_ref<const std::string&>().empty()) {
      refuse("an ending is no text, or empty");
    }
    question.endings.push_back(ending.get<std::string>());
  }
  if (std::ssize(question.endings) < 2 || std::ssize(question.endings) > kMaxEndings) {
    refuse(fmt::format("{} endings (2 to {} are possible)", question.endings.size(), kMaxEndings));
  }
  const auto label = json.contains("label") ? read_label(json["label"]) : std::nullopt;
  if (!label || *label < 0 || *label >= std::ssize(question.endings)) {
    refuse(fmt::format("\"label\" is none of the {} endings", question.endings.size()));
  }
  question.label = *label;
  return question;
}

/// One ending as ids, and how many of them are the ending's.
struct Row {
  std::vector<int64_t> ids;
  int64_t n_ending = 0;
  int64_t bytes = 0;
};

Row make_row(const Tokenizer& tokenizer,
             const Question& question,
             const std::string& ending,
             int64_t context_length) {
  const bool has_space = std::isspace(static_cast<unsigned char>(ending[0])) != 0;
  const std::string text = question.context.empty() || has_space ? ending : " " + ending;
  Row row;
  std::vector<int32_t> ids;
  try {
    tokenizer.encode_to(question.context, ids);
    if (ids.empty()) ids.push_back(static_cast<int32_t>(tokenizer.start_token()));
    const size_t n_context = ids.size();
    tokenizer.encode_to(text, ids);
    row.n_ending = static_cast<int64_t>(ids.size() - n_context);
  } catch (const EncodeError& error) {
    throw DataError(fmt::format("{}: {}", question.origin, error.what()));
  }
  row.bytes = static_cast<int64_t>(text.size());
  row.n_ending = std::min(row.n_ending, context_length);
  const auto n = std::min<size_t>(ids.size(), static_cast<size_t>(context_length) + 1);
  row.ids.assign(ids.end() - static_cast<std::ptrdiff_t>(n), ids.end());
  return row;
}

/// Nats of each row's ending, in one batch padded at the end: no row sees its padding.
std::vector<double> ending_nats(GPT& model, const std::vector<Row>& rows) {
  size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.ids.size());
  const torch::Tensor ids =
      torch::zeros({std::ssize(rows), static_cast<int64_t>(longest)}, torch::kInt64);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].ids.begin(),
              rows[i].ids.end(),
              ids[static_cast<int64_t>(i)].mutable_data_ptr<int64_t>());
  }
  const torch::Device device = model->token_embedding->weight.device();
  const int64_t t = ids.size(1) - 1;
  const torch::Tensor losses = token_losses(model,
                                            ids.narrow(1, 0, t).contiguous().to(device),
                                            ids.narrow(1, 1, t).contiguous().to(device))
                                   .to(torch::kCPU, torch::kFloat64);
  std::vector<double> nats;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t end = std::ssize(rows[i].ids) - 1;
    nats.push_back(losses[static_cast<int64_t>(i)]
                       .narrow(0, end - rows[i].n_ending, rows[i].n_ending)
                       .sum()
                       .item<double>());
  }
  return nats;
}

template <typename Score>
bool picks_label(const Question& question, const Score& score) {
  size_t best = 0;
  for (size_t i = 1; i < question.endings.size(); ++i) {
    if (score(i) < score(best)) best = i;
  }
  return static_cast<int64_t>(best) == question.label;
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& path) {
  std::istringstream lines(read_file(path, FileRole::kData));
  std::vector<Question> questions;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string origin = fmt::format("{} line {}", path.string(), number);
    questions.push_back(parse_question(parse_json(line, origin, FileRole::kData), origin));
  }
  if (questions.empty()) {
    throw DataError(fmt::format("{}: there is no question in it", path.string()));
  }
  return questions;
}

double MultipleChoiceResult::standard_error() const {
  return std::sqrt(accuracy() * (1 - accuracy()) / static_cast<double>(questions));
}

std::optional<MultipleChoiceResult> answer_questions(GPT& model,
                                                     const Tokenizer& tokenizer,
                                                     const std::vector<Question>& questions,
                                                     const MultipleChoiceOptions& options) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);
  const AutocastGuard autocast(model->token_embedding->weight.device().type(), options.precision);
  MultipleChoiceResult result;
  for (const Question& question : questions) {
    if (options.should_stop && options.should_stop()) return std::nullopt;
    std::vector<Row> rows;
    for (const std::string& ending : question.endings) {
      rows.push_back(make_row(tokenizer, question, ending, model->config().context_length));
    }
    const std::vector<double> nats = ending_nats(model, rows);
    for (const double value : nats) {
      if (!std::isfinite(value)) {
        throw CheckpointError(
            fmt::format("the model's output is not finite ({})", question.origin));
      }
    }
    ++result.questions;
    result.chance += 1.0 / static_cast<double>(question.endings.size());
    result.right_per_token += picks_label(
        question, [&](size_t i) { return nats[i] / static_cast<double>(rows[i].n_ending); });
    result.right_per_byte += picks_label(
        question, [&](size_t i) { return nats[i] / static_cast<double>(rows[i].bytes); });
    result.right_by_sum += picks_label(question, [&](size_t i) { return nats[i]; });
    if (options.on_progress) options.on_progress(result.questions, std::ssize(questions));
  }
  result.chance /= static_cast<double>(result.questions);
  return result;
}

}  // namespace tril
