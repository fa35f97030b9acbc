// tril evaluate: the loss of a text under a trained model.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <map>
#include <memory>

#include "commands.h"
#include "load_run.h"
#include "output.h"
#include "run_setup.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/training_data.h"
#include "tril/evaluate/evaluator.h"
#include "tril/evaluate/multiple_choice.h"
#include "tril/generate/engine.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct EvaluateArguments {
  RunArgument run;
  std::string data;
  std::string multiple_choice;
  int64_t batch_size = 0;
  WeightFormat weights = WeightFormat::kFp32;
  bool json = false;
};

struct EvaluationText {
  TokenFile tokens;
  std::string name;
  std::optional<double> floor_nats;
};

EvaluationText open_text(const EvaluateArguments& args, const LoadedRun& run) {
  if (!args.data.empty()) {
    return {open_text_or_tokens(args.data, run.tokenizer), args.data, std::nullopt};
  }
  const auto require_validation = [&](bool there) {
    if (there) return;
    throw DataError(
        fmt::format("{} has no validation split: give a text with --data FILE", args.run.run));
  };
  // An imported model has none: said before any text is opened.
  require_validation(run.config.data.validation_fraction > 0 ||
                     !run.config.data.validation.empty());
  const TrainingData data =
      open_training_data(run.config.data, run.config.model.context_length, run.tokenizer, {});
  require_validation(data.validation.has_value());
  return {*data.validation, "the validation split", data.validation_floor_nats};
}

void print_result(const Evaluation& result, const EvaluationText& text, const LoadedRun& run) {
  print_out("text           {}\n", text.name);
  print_out("checkpoint     step {}\n", run.state.step);
  print_out("loss           {:.4f} nats per token{}\n",
            result.loss(),
            std::isfinite(result.standard_error)
                ? fmt::format(" (standard error {:.4f})", result.standard_error)
                : "");
  print_out("perplexity     {:.3f}\n", result.perplexity());
  print_out("bits per byte  {:.4f}\n", result.bits_per_byte());
  print_out("tokens scored  {} ({} bytes), every one but the first, windows of {}\n",
            result.tokens,
            result.bytes,
            run.config.model.context_length);
  if (text.floor_nats) {
    const double floor = *text.floor_nats / static_cast<double>(result.tokens);
    print_out(
        "floor          {:.4f} nats per token: what the corpus itself leaves open; the model is "
        "{:.4f} above it\n",
        floor,
        result.loss() - floor);
  }
}

/// The one it was trained in; but fp16 only on a GPU: this CPU would take tens of times as long.
torch::ScalarType precision_of(const LoadedRun& run) {
  const auto stored = stored_precision(run.state.precision);
  const bool on_cpu = run.model->head_weight().device().is_cpu();
  return stored == torch::kFloat16 && on_cpu ? torch::kFloat32 : stored;
}

int evaluate_choices(const EvaluateArguments& args, LoadedRun& run) {
  const auto questions = read_questions(args.multiple_choice);
  Progress progress;
  const auto result =
      answer_questions(run.model,
                       *run.tokenizer,
                       questions,
                       {.precision = precision_of(run),
                        .should_stop = [] { return stop_signal() != 0; },
                        .on_progress =
                            [&](int64_t done, int64_t total) {
                              progress.activity(fmt::format("question {} of {}", done, total));
                            }});
  progress.clear();
  if (!result) return 128 + stop_signal();
  if (args.json) {
    OrderedJson json;
    json["questions"] = result->questions;
    json["accuracy"] = result->accuracy();
    json["accuracy_standard_error"] = result->standard_error();
    json["accuracy_per_byte"] = result->share(result->right_per_byte);
    json["accuracy_by_sum"] = result->share(result->right_by_sum);
    json["chance"] = result->chance;
    json["step"] = run.state.step;
    json["checkpoint"] = run.checkpoint.folder().string();
    print_out("{}\n", dump_json(json));
    return 0;
  }
  print_out("questions      {}\n", result->questions);
  print_out("checkpoint     step {}\n", run.state.step);
  print_out("accuracy       {:.4f} (standard error {:.4f}; chance {:.4f}), mean over tokens\n",
            result->accuracy(),
            result->standard_error(),
            result->chance);
  print_out("  per byte     {:.4f}\n", result->share(result->right_per_byte));
  print_out("  by sum       {:.4f}\n", result->share(result->right_by_sum));
  return 0;
}

int evaluate_run(const EvaluateArguments& args, const CommonOptions& common) {
  LoadedRun run = load_run(args.run, common);
  round_weights(run.model, args.weights);
  if (!args.multiple_choice.empty()) return evaluate_choices(args, run);
  const EvaluationText text = open_text(args, run);
  Progress progress;
  const auto result =
      evaluate(run.model,
               text.tokens,
               *run.tokenizer,
               {.batch_size = args.batch_size,
                .precision = precision_of(run),
                .should_stop = [] { return stop_signal() != 0; },
                .on_progress =
                    [&](int64_t done, int64_t total) {
                      progress.activity(
                          fmt::format("evaluating {} %", 100 * done / std::max<int64_t>(total, 1)));
                    }});
  progress.clear();
  if (!result) return 128 + stop_signal();
  if (!std::isfinite(result->loss())) {
    throw CheckpointError(fmt::format("the model's output is not finite (checkpoint step {}, {})",
                                      run.state.step,
                                      run.checkpoint.folder().string()));
  }
  if (args.json) {
    OrderedJson json;
    json["loss"] = result->loss();
    json["loss_standard_error"] = std::isfinite(result->standard_error)
                                      ? OrderedJson(result->standard_error)
                                      : OrderedJson(nullptr);
    json["perplexity"] = result->perplexity();
    json["bits_per_byte"] = result->bits_per_byte();
    json["tokens"] = result->tokens;
    json["bytes"] = result->bytes;
    json["step"] = run.state.step;
    json["checkpoint"] = run.checkpoint.folder().string();
    print_out("{}\n", dump_json(json));
  } else {
    print_result(*result, text, run);
  }
  if (text.floor_nats && result->nats < *text.floor_nats - 20) {
    throw CheckpointError(
        "the loss is below the exact entropy floor of this text: the model sees what it should "
        "predict, or the mean is wrong");
  }
  return 0;
}

}  // namespace

CommandEntry add_evaluate_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("evaluate", "Loss, perplexity and bits per byte of a text");
  auto args = std::make_shared<EvaluateArguments>();
  add_run_argument(*command, args->run);
  command->add_option(
      "--data", args->data, "A text or .tokens file (default: the run's validation split)");
  command
      ->add_option(
          "--multiple-choice",
          args->multiple_choice,
          "Answer questions instead: a JSONL file, one {\"ctx\", \"endings\", \"label\"} a "
          "line, the form of HellaSwag")
      ->excludes("--data");
  std::map<std::string, WeightFormat> formats;
  for (const auto& [value, name] : kWeightFormatNames) formats.emplace(name, value);
  command
      ->add_option("--weights",
                   args->weights,
                   "Round the matrices first, as generate --weights holds them: what that costs")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("fp32|bf16|int8");
  command
      ->add_option("--batch-size",
                   args->batch_size,
                   "Windows at once; does not change the result (0: chosen)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(
      R"(Every token but the first is scored exactly once, in windows of the context length; each
token is predicted from those before it in its window.
Examples:
  tril evaluate runs/quickstart
  tril evaluate runs/quickstart --checkpoint best --data my_text.txt --json
  tril evaluate runs/gpt2 --multiple-choice hellaswag_val.jsonl)");
  return {command, [args, &common] { return evaluate_run(*args, common); }};
}

}  // namespace tril::cli
