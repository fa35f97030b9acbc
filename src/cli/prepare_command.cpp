// tril prepare: text files into token files.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "commands.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/prepare.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct PrepareArguments {
  std::vector<std::string> inputs;
  PrepareOptions options;
  std::string out;
  bool normalize_newlines = false;
  std::string describe;
  bool json = false;
};

int describe(const PrepareArguments& args) {
  const TokenFileSummary s = describe_token_file(args.describe);
  OrderedJson json;
  json["file"] = args.describe;
  json["tokens"] = s.header.count;
  json["vocab_size"] = s.header.vocab_size;
  json["distinct_ids"] = s.distinct_ids;
  json["highest_id"] = s.highest_id;
  json["bytes_per_id"] = s.header.id_bytes;
  json["text_bytes"] = s.header.text_bytes;
  json["text_bytes_per_token"] = s.text_bytes_per_token;
  json["tokenizer_fingerprint"] = s.header.tokenizer_fingerprint;
  json["content_fingerprint"] = s.content_fingerprint;
  if (args.json) {
    print_out("{}\n", dump_json(json));
    return 0;
  }
  for (const auto& [key, value] : json.items()) {
    print_out("{:<24} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return 0;
}

int prepare_files(PrepareArguments args) {
  if (args.inputs.empty() || args.out.empty()) {
    throw ConfigError("tril prepare needs INPUT files and --out DIR (or --describe FILE)");
  }
  for (const auto& input : args.inputs) args.options.inputs.emplace_back(input);
  args.options.out = args.out;
  if (args.normalize_newlines) args.options.newlines = Newlines::kNormalize;
  Progress progress;
  const PrepareResult result =
      prepare(args.options,
              {.progress =
                   [&](int64_t done, int64_t total) {
                     progress.activity(
                         fmt::format("preparing {} %", 100 * done / std::max<int64_t>(total, 1)));
                   },
               .stop = [] { return stop_signal() != 0; },
               .notice =
                   [&](const std::string& message) {
                     progress.clear();
                     spdlog::info("{}", message);
                   }});
  progress.clear();
  spdlog::info("{}: {} training tokens, {} validation tokens, vocabulary {}",
               args.out,
               result.train.tokens,
               result.validation ? result.validation->tokens : 0,
               result.tokenizer->vocab_size());
  return 0;
}

}  // namespace

CommandEntry add_prepare_command(CLI::App& app, CommonOptions&) {
  auto* command = app.add_subcommand("prepare", "Tokenise text files once, for training");
  auto args = std::make_shared<PrepareArguments>();
  command->add_option("INPUT", args->inputs, "Text files; together they are one text");
  command->add_option("--tokenizer", args->options.tokenizer, "char, byte, or a tokenizer.json")
      ->capture_default_str();
  command->add_option(
      "--out", args->out, "Folder for train.tokens, validation.tokens, tokenizer.json");
  command
      ->add_option("--validation-fraction",
                   args->options.validation_fraction,
                   "Share at the end of the text; 0: none")
      ->capture_default_str();
  command->add_flag("--overwrite", args->options.overwrite, "Replace files that are there");
  command->add_flag("--normalize-newlines", args->normalize_newlines, "CR LF and CR become LF");
  command->add_option("--describe", args->describe, "Say what a token file holds");
  command->add_flag("--json", args->json, "With --describe: one JSON object on stdout");
  command->footer(R"(Examples:
  tril prepare book.txt --tokenizer char --out data/book
  tril prepare --describe data/book/train.tokens)");
  return {command,
          [args] { return args->describe.empty() ? prepare_files(*args) : describe(*args); }};
}

}  // namespace tril::cli
