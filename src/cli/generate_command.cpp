// tril generate: text from a trained model.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "commands.h"
#include "load_run.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/generate/generator.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct GenerateArguments {
  RunArgument run;
  std::optional<std::string> prompt;
  std::string prompt_file;
  GenerateOptions options;
  int64_t samples = 1;
  bool json = false;
  bool no_cache = false;
  bool allow_special = false;
};

std::string read_prompt(const GenerateArguments& args) {
  if (args.prompt) return *args.prompt;
  if (args.prompt_file.empty()) return {};
  if (args.prompt_file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  return read_file(args.prompt_file, FileRole::kData);
}

/// The prompt's ids; the start token for an empty one.
std::vector<int64_t> prompt_ids(const LoadedRun& run,
                                const std::string& prompt,
                                SpecialText special) {
  std::vector<int64_t> ids;
  for (const int32_t id : run.tokenizer->encode(prompt, special)) ids.push_back(id);
  if (ids.empty()) ids.push_back(run.tokenizer->start_token());
  const int64_t context = run.config.model.context_length;
  if (static_cast<int64_t>(ids.size()) > context) {
    spdlog::info("the prompt is longer than the context: kept the last {} of {} tokens",
                 context,
                 ids.size());
    ids.erase(ids.begin(), ids.end() - context);
  }
  return ids;
}

int generate_samples(const GenerateArguments& args, const CommonOptions& common) {
  validate(args.options.sampling);
  const std::string prompt = read_prompt(args);
  LoadedRun run = load_run(args.run, common);
  const auto ids =
      prompt_ids(run, prompt, args.allow_special ? SpecialText::kBecomesId : SpecialText::kIsText);

  OrderedJson samples = OrderedJson::array();
  for (int64_t i = 0; i < args.samples && stop_signal() == 0; ++i) {
    GenerateOptions options = args.options;
    options.use_cache = !args.no_cache;
    options.sample_index = i;
    options.should_stop = [] { return stop_signal() != 0; };
    std::function<void(std::string_view)> on_text;
    if (!args.json) {
      if (i > 0) write_out("\n---\n");
      write_out(prompt);
      on_text = write_out;
    }
    try {
      const Generation sample = generate(run.model, *run.tokenizer, ids, options, on_text);
      if (args.json) {
        samples.push_back({{"text", sample.text},
                           {"ids", sample.ids},
                           {"stop_reason", stop_reason_name(sample.reason)}});
      }
    } catch (const CheckpointError& error) {
      throw CheckpointError(fmt::format("{} (checkpoint step {}, {})",
                                        error.what(),
                                        run.state.step,
                                        run.checkpoint.folder().string()));
    }
  }
  if (args.json) {
    OrderedJson result;
    result["samples"] = std::move(samples);
    write_out(dump_json(result) + "\n");
  } else {
    write_out("\n");
  }
  return stop_signal() != 0 ? 128 + stop_signal() : 0;
}

}  // namespace

CommandEntry add_generate_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("generate", "Write text with a trained model");
  auto args = std::make_shared<GenerateArguments>();
  GenerateOptions& options = args->options;
  add_run_argument(*command, args->run);
  auto* prompt =
      command->add_option("--prompt",
                          args->prompt,
                          "Text to continue (default: the start token, a newline where the "
                          "vocabulary has one)");
  command->add_option("--prompt-file", args->prompt_file, "Read the prompt from a file; - is stdin")
      ->excludes(prompt);
  command->add_option("--max-new-tokens", options.max_new_tokens, "Length of a sample, in tokens")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  command
      ->add_option("--temperature",
                   options.sampling.temperature,
                   "0 takes the most probable token, 1 the model's own distribution")
      ->capture_default_str();
  command->add_option("--top-k", options.sampling.top_k, "Only the k most probable tokens; 0: all")
      ->capture_default_str();
  command
      ->add_option("--top-p",
                   options.sampling.top_p,
                   "Only the most probable tokens that together reach this probability")
      ->capture_default_str();
  command
      ->add_option("--min-p",
                   options.sampling.min_p,
                   "Only tokens with this share of the highest probability")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty",
                   options.sampling.repetition_penalty,
                   "Above 1: tokens already there become less probable")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Another seed, another text")->capture_default_str();
  command->add_option("--samples", args->samples, "How many texts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command
      ->add_option(
          "--stop", options.stop, "End a sample before this text; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_flag("--allow-special",
                    args->allow_special,
                    "Special tokens in the prompt, such as <|endoftext|>, become their ids");
  command->add_flag(
      "--json", args->json, "One JSON object on stdout: samples with text, ids, stop_reason");
  command->add_flag(
      "--no-cache", args->no_cache, "Read the whole window for every token: the same text, slower");
  command->footer(R"(Examples:
  tril generate runs/quickstart
  tril generate runs/quickstart --prompt "Once upon a time" --temperature 0.7 --top-k 40
  tril generate runs/quickstart --samples 3 --stop $'\n\n' --json)");
  return {command, [args, &common] { return generate_samples(*args, common); }};
}

}  // namespace tril::cli
