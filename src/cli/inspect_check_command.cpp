// tril inspect check: is this model the causal transformer it claims to be?

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "inspect_commands.h"
#include "load_run.h"
#include "output.h"
#include "tril/base/counter_random.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/training_data.h"
#include "tril/evaluate/evaluator.h"
#include "tril/inspect/attention_check.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

constexpr int64_t kMostPositions = 256;  // (T, T) weights of every head in double precision

struct CheckArguments {
  RunArgument run;
  bool json = false;
};

/// The run's data, where it is there. Without it the check-list works on random tokens.
std::optional<TrainingData> data_of(const LoadedRun& run) {
  try {
    return open_training_data(run.config.data,
                              run.config.model.context_length,
                              run.tokenizer,
                              {.stop = [] { return stop_signal() != 0; }});
  } catch (const DataError& error) {
    spdlog::info("without the run's data: {}", error.what());
    return std::nullopt;
  }
}

/// Two rows of tokens, of the text where there is one: (2, T)
torch::Tensor some_tokens(const LoadedRun& run, const std::optional<TrainingData>& data) {
  const int64_t t = std::min(run.config.model.context_length, kMostPositions);
  std::vector<int64_t> ids(static_cast<size_t>(2 * t));
  const TokenFile* file = nullptr;
  if (data) file = data->validation ? &*data->validation : &data->train;
  if (file != nullptr && file->size() >= 2 * t) {
    file->read(0, ids);
  } else {
    const auto vocab = static_cast<uint64_t>(run.tokenizer->vocab_size());
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int64_t>(
          scale_to_range(random_bits(run.config.seed, RandomStream::kCorpus, i), vocab));
    }
  }
  for (int64_t& id : ids) id = std::clamp<int64_t>(id, 0, run.config.model.vocab_size - 1);
  return torch::tensor(ids, torch::kInt64).view({2, t});
}

CheckLine floor_line(LoadedRun& run, const std::optional<TrainingData>& data) {
  if (!data || !data->validation || !data->validation_floor_nats) {
    return {"floor",
            "the validation loss is not below what the corpus leaves open",
            CheckResult::kSkipped,
            0,
            "",
            "known for the bundled tales only"};
  }
  const auto result = evaluate(run.model, *data->validation, *run.tokenizer, {.should_stop = [] {
                                 return stop_signal() != 0;
                               }});
  if (!result) throw ResourceError("stopped by a signal");
  return check_floor(result->nats, *data->validation_floor_nats, result->tokens);
}

const char* word(CheckResult result) {
  switch (result) {
    case CheckResult::kPass:
      return "pass";
    case CheckResult::kFail:
      return "FAIL";
    case CheckResult::kSkipped:
      return "skip";
  }
  return "?";
}

void print_lines(const std::vector<CheckLine>& lines) {
  for (const CheckLine& line : lines) {
    const std::string number =
        line.result == CheckResult::kSkipped ? std::string("-") : fmt::format("{:.6g}", line.value);
    print_out("{}  {:<11} {:<63} {:>12}  {}\n",
              word(line.result),
              line.name,
              line.claim,
              number,
              line.limit);
    if (!line.detail.empty()) print_out("      {:<11} {}\n", "", line.detail);
  }
}

OrderedJson to_json(const std::vector<CheckLine>& lines, const LoadedRun& run, bool pass) {
  OrderedJson json;
  json["pass"] = pass;
  json["step"] = run.state.step;
  json["checkpoint"] = run.checkpoint.folder().string();
  json["checks"] = OrderedJson::array();
  for (const CheckLine& line : lines) {
    OrderedJson entry;
    entry["name"] = line.name;
    entry["claim"] = line.claim;
    entry["result"] = line.result == CheckResult::kPass   ? "pass"
                      : line.result == CheckResult::kFail ? "fail"
                                                          : "skipped";
    if (line.result != CheckResult::kSkipped && std::isfinite(line.value)) {
      entry["value"] = line.value;
    } else {
      entry["value"] = nullptr;
    }
    entry["limit"] = line.limit;
    entry["detail"] = line.detail;
    json["checks"].push_back(entry);
  }
  return json;
}

int check_run(const CheckArguments& args, const CommonOptions& common) {
  LoadedRun run = load_run(args.run, common);
  const auto data = data_of(run);
  const torch::Device device = run.model->token_embedding->weight.device();
  const torch::Tensor ids = some_tokens(run, data).to(device);
  std::vector<CheckLine> lines = check_attention(subject_of(run.model, run.config.seed), ids);
  lines.push_back(floor_line(run, data));

  const auto n_failed = std::count_if(lines.begin(), lines.end(), [](const CheckLine& line) {
    return line.result == CheckResult::kFail;
  });
  if (args.json) {
    print_out("{}\n", dump_json(to_json(lines, run, n_failed == 0)));
  } else {
    print_lines(lines);
  }
  if (n_failed > 0) {
    throw CheckpointError(fmt::format(
        "{}: {} of {} checks failed", run.checkpoint.folder().string(), n_failed, lines.size()));
  }
  return 0;
}

}  // namespace

CommandEntry add_inspect_check_command(CLI::App& inspect, CommonOptions& common) {
  auto* command = inspect.add_subcommand(
      "check",
      "Is the mask causal, the scale right, the fast path equal to the plain one? Numbers");
  auto args = std::make_shared<CheckArguments>();
  add_run_argument(*command, args->run);
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(
      R"(Every line is a claim about the model, the number measured on this very checkpoint, and the
limit. A line that fails makes the exit code 4.
Examples:
  tril inspect check runs/quickstart
  tril inspect check runs/quickstart --checkpoint best --json)");
  return {command, [args, &common] { return check_run(*args, common); }};
}

}  // namespace tril::cli
