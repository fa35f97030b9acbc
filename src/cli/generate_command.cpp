// tril generate: text from a trained model.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

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
  std::string prompts;  ///< a JSONL file
  GenerateOptions options;
  std::vector<std::string> logit_bias;
  int64_t samples = 1;
  int64_t at_once = 8;
  bool json = false;
  bool no_cache = false;
  bool allow_special = false;
  bool timing = false;
};

constexpr int64_t kMaxTopLogProbabilities = 1000;

std::string read_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

std::string read_text(const std::string& path) {
  return path == "-" ? read_stdin() : read_file(path, FileRole::kData);
}

std::string read_prompt(const GenerateArguments& args) {
  if (args.prompt) return *args.prompt;
  return args.prompt_file.empty() ? std::string() : read_text(args.prompt_file);
}

/// The "prompt" of each line of a JSONL file; empty lines are passed over.
std::vector<std::string> read_prompts(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string> prompts;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string origin = fmt::format("{} line {}", path, number);
    const Json json = parse_json(line, origin, FileRole::kData);
    if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      throw DataError(
          fmt::format("{}: expected an object such as {{\"prompt\": \"Once\"}}", origin));
    }
    prompts.push_back(json["prompt"].get<std::string>());
  }
  if (prompts.empty()) throw DataError(fmt::format("{}: there is no prompt in it", path));
  return prompts;
}

/// "50256=-100" -> (50256, -100).
std::pair<int64_t, double> parse_logit_bias(const std::string& text) {
  const size_t equals = text.find('=');
  try {
    size_t id_end = 0;
    size_t value_end = 0;
    const int64_t id = std::stoll(text, &id_end);
    const double value = std::stod(text.substr(equals + 1), &value_end);
    if (equals != std::string::npos && id_end == equals && value_end == text.size() - equals - 1) {
      return {id, value};
    }
  } catch (const std::exception&) {  // said below
  }
  throw ConfigError(fmt::format("--logit-bias {}: expected ID=NUMBER, such as 50256=-100", text));
}

/// The prompt's ids; the start token for an empty one.
std::vector<int64_t> prompt_ids(const GenerateArguments& args,
                                const LoadedRun& run,
                                const std::string& prompt) {
  const SpecialText special = args.allow_special ? SpecialText::kBecomesId : SpecialText::kIsText;
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

OrderedJson to_json(const Generation& sample) {
  OrderedJson json = {
      {"text", sample.text}, {"ids", sample.ids}, {"stop_reason", stop_reason_name(sample.reason)}};
  if (sample.log_probabilities.empty()) return json;
  OrderedJson tokens = OrderedJson::array();
  for (size_t i = 0; i < sample.log_probabilities.size(); ++i) {
    OrderedJson top = OrderedJson::array();
    for (const auto& [id, log_probability] : sample.log_probabilities[i].top) {
      top.push_back({{"id", id}, {"logprob", log_probability}});
    }
    tokens.push_back({{"id", sample.ids[i]},
                      {"logprob", sample.log_probabilities[i].chosen},
                      {"top", std::move(top)}});
  }
  json["logprobs"] = std::move(tokens);
  return json;
}

/// One after another, text as it comes.
void stream_samples(const GenerateArguments& args,
                    LoadedRun& run,
                    const std::string& prompt,
                    GenerateOptions options) {
  const auto ids = prompt_ids(args, run, prompt);
  for (int64_t i = 0; i < args.samples && stop_signal() == 0; ++i) {
    options.sample_index = i;
    if (i > 0) write_out("\n---\n");
    write_out(prompt);
    generate(run.model, *run.tokenizer, ids, options, write_out);
  }
  write_out("\n");
}

/// All samples of all prompts, several at once.
void print_json(const GenerateArguments& args,
                LoadedRun& run,
                const std::vector<std::string>& texts,
                GenerateOptions options) {
  GenerationTiming timing;
  options.timing = &timing;
  std::vector<Prompt> prompts;
  for (const std::string& text : texts) {
    const auto ids = prompt_ids(args, run, text);
    for (int64_t i = 0; i < args.samples; ++i) prompts.push_back({ids, i});
  }
  const auto results = generate_all(run.model, *run.tokenizer, prompts, options, args.at_once);
  OrderedJson samples = OrderedJson::array();
  for (size_t i = 0; i < results.size(); ++i) {
    samples.push_back(to_json(results[i]));
    if (!args.prompts.empty()) {
      samples.back()["prompt"] = static_cast<int64_t>(i) / args.samples;
    }
  }
  OrderedJson json;
  json["samples"] = std::move(samples);
  if (args.timing) {
    json["timing"] = {{"prompt_tokens", timing.prompt_tokens},
                      {"prompt_seconds", timing.prompt_seconds},
                      {"step_tokens", timing.step_tokens},
                      {"step_seconds", timing.step_seconds}};
  }
  write_out(dump_json(json) + "\n");
}

int generate_samples(const GenerateArguments& args, const CommonOptions& common) {
  GenerateOptions options = args.options;
  for (const std::string& text : args.logit_bias) {
    options.sampling.logit_bias.push_back(parse_logit_bias(text));
  }
  validate(options.sampling);
  options.use_cache = !args.no_cache;
  if (args.no_cache && options.weights != WeightFormat::kFp32) {
    throw ConfigError(
        "--no-cache computes through LibTorch, in fp32: it does not go with --weights");
  }
  if (options.top_log_probabilities >= 0 && !args.json) {
    throw ConfigError("--logprobs goes with --json: they are part of that object");
  }
  if (args.timing && (!args.json || args.no_cache)) {
    throw ConfigError("--timing goes with --json, and with the cache");
  }
  if (!args.prompts.empty() && !args.json) {
    throw ConfigError("--prompts goes with --json: the samples are told apart there");
  }
  options.should_stop = [] { return stop_signal() != 0; };
  std::vector<std::string> texts;
  if (args.prompts.empty()) {
    texts.push_back(read_prompt(args));
  } else {
    texts = read_prompts(args.prompts);
  }
  LoadedRun run = load_run(args.run, common);
  if (!run.model->token_embedding->weight.device().is_cpu() &&
      options.weights != WeightFormat::kFp32) {
    throw ConfigError("--weights bf16 and int8 are for the CPU: add --device cpu");
  }
  for (const auto& [id, bias] : options.sampling.logit_bias) {
    if (id < run.tokenizer->vocab_size()) continue;
    throw ConfigError(fmt::format(
        "--logit-bias {}: the tokenizer has ids 0 to {}", id, run.tokenizer->vocab_size() - 1));
  }
  try {
    if (args.json) {
      print_json(args, run, texts, options);
    } else {
      stream_samples(args, run, texts[0], options);
    }
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{} (checkpoint step {}, {})",
                                      error.what(),
                                      run.state.step,
                                      run.checkpoint.folder().string()));
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
  command
      ->add_option(
          "--prompts",
          args->prompts,
          "Many prompts: a JSONL file, one {\"prompt\": TEXT} a line; - is stdin. Needs --json")
      ->excludes(prompt)
      ->excludes("--prompt-file");
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
  command
      ->add_option(
          "--logit-bias",
          args->logit_bias,
          "Add a number to a token's logit, before everything else; -100 forbids it. May be "
          "given several times")
      ->type_name("ID=NUMBER")
      ->allow_extra_args(false);
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
  command
      ->add_option(
          "--logprobs",
          options.top_log_probabilities,
          "With --json: each token's log-probability under the model itself (temperature 1, "
          "no filters), and so many of the most probable")
      ->type_name("N")
      ->check(CLI::Range(int64_t{0}, kMaxTopLogProbabilities));
  command->add_option("--batch-size", args->at_once, "With --json: texts made side by side")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 12))
      ->capture_default_str();
  std::map<std::string, WeightFormat> formats;
  for (const auto& [value, name] : kWeightFormatNames) formats.emplace(name, value);
  command
      ->add_option("--weights",
                   options.weights,
                   "How the CPU holds the matrices: fp32 (default), bf16 (half the bytes, faster), "
                   "int8 (a quarter, fastest)")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("fp32|bf16|int8");
  command->add_flag(
      "--timing", args->timing, "With --json: how long the prompt and the tokens after it took");
  command->add_flag(
      "--no-cache", args->no_cache, "Read the whole window for every token: the same text, slower");
  command->footer(R"(Examples:
  tril generate runs/quickstart
  tril generate runs/quickstart --prompt "Once upon a time" --temperature 0.7 --top-k 40
  tril generate runs/quickstart --samples 3 --stop $'\n\n' --json
  tril generate runs/gpt2 --weights int8 --prompts prompts.jsonl --json --logprobs 5
On a CPU a step runs on one thread per 256 KiB of weights, at most --threads of them.)");
  return {command, [args, &common] { return generate_samples(*args, common); }};
}

}  // namespace tril::cli
