// tril prepare: texts of any size into token files.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "commands.h"
#include "output.h"
#include "prepare_peers.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/data/prepare.h"
#include "tril/data/training_data.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct PrepareArguments {
  std::vector<std::string> inputs;
  PrepareOptions options;
  std::string out;
  std::string vocab;
  bool allow_special = false;
  bool normalize_newlines = false;
  std::string describe;
  DataFormat format = DataFormat::kAuto;
  bool json = false;
};

/// Tells how far the work is: a live line on a terminal, elsewhere a line every ten seconds.
class PrepareMeter {
 public:
  explicit PrepareMeter(Progress& progress) : progress_(progress) {}

  void operator()(int64_t done, int64_t total) {
    const auto now = Clock::now();
    const auto pause = live_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
    if (now - last_ < pause) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
    const std::string line =
        fmt::format("preparing {} %  {:.1f} MB/s  ETA {}",
                    100 * done / std::max<int64_t>(total, 1),
                    rate / 1e6,
                    format_duration(static_cast<double>(total - done) / std::max(rate, 1.0)));
    if (live_) {
      progress_.activity(line);
    } else {
      spdlog::info("{}", line);
    }
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Progress& progress_;
  bool live_ = isatty(STDERR_FILENO) != 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

TokenFile open_for_description(const PrepareArguments& args) {
  if (args.format == DataFormat::kAuto &&
      std::filesystem::path(args.describe).extension() == ".tokens") {
    return TokenFile::open(args.describe);  // one shard of a set too
  }
  return open_tokens_to_describe(args.describe, args.format, args.options.tokenizer);
}

int describe(const PrepareArguments& args) {
  const TokenFileSummary s = describe_tokens(open_for_description(args));
  const auto known = [](int64_t n) { return n < 0 ? OrderedJson(nullptr) : OrderedJson(n); };
  OrderedJson json;
  json["file"] = args.describe;
  json["files"] = s.files;
  json["tokens"] = s.header.count;
  json["vocab_size"] = s.header.vocab_size;
  json["distinct_ids"] = s.distinct_ids;
  json["highest_id"] = s.highest_id;
  json["bytes_per_id"] = s.header.id_bytes;
  json["documents"] = known(s.documents);
  json["longest_document_tokens"] = known(s.longest_document);
  json["text_bytes"] = s.header.text_bytes;
  json["text_bytes_per_token"] = s.text_bytes_per_token;
  json["tokenizer_fingerprint"] = s.header.tokenizer_fingerprint;
  json["content_fingerprint"] = s.content_fingerprint;
  if (args.json) {
    print_out("{}\n", dump_json(json));
    return 0;
  }
  for (const auto& [key, value] : json.items()) {
    const std::string text = value.is_string() ? value.get<std::string>()
                             : value.is_null() ? "unknown (the ids have no end-of-text)"
                                               : value.dump();
    print_out("{:<24} {}\n", key, text);
  }
  return 0;
}

std::string describe_part(const char* name, const PreparedSplit& part, bool running_text) {
  std::string text = fmt::format("{} {} tokens", part.tokens, name);
  if (!running_text) {
    text += fmt::format(" ({} document{})", part.documents, part.documents == 1 ? "" : "s");
  }
  if (part.files > 1) text += fmt::format(" in {} shards", part.files);
  return text;
}

/// Of one process; with `exchange` of one of several, of which the first speaks.
int prepare_files(PrepareArguments args, BlockExchange* exchange) {
  if (args.inputs.empty() || args.out.empty()) {
    throw ConfigError("tril prepare needs INPUT files and --out DIR (or --describe FILE)");
  }
  for (const auto& input : args.inputs) args.options.inputs.emplace_back(input);
  args.options.out = args.out;
  args.options.vocab = args.vocab;
  if (args.allow_special) args.options.special = SpecialText::kBecomesId;
  if (args.normalize_newlines) args.options.newlines = Newlines::kNormalize;
  Progress progress;
  PrepareMeter meter(progress);
  const PrepareResult result =
      prepare(args.options,
              {.progress = [&](int64_t done, int64_t total) { meter(done, total); },
               .stop = [] { return stop_signal() != 0; },
               .notice =
                   [&](const std::string& message) {
                     progress.clear();
                     spdlog::info("{}", message);
                   }},
              exchange);
  progress.clear();
  if (exchange != nullptr && !exchange->is_first()) return 0;
  spdlog::info("{}: {}, {}, vocabulary {}; {} file{}, {:.1f} MB in {:.1f} s ({:.1f} MB/s)",
               args.out,
               describe_part("training", result.train, result.running_text),
               result.validation
                   ? describe_part("validation", *result.validation, result.running_text)
                   : std::string("no validation part"),
               result.tokenizer->vocab_size(),
               result.input_files,
               result.input_files == 1 ? "" : "s",
               static_cast<double>(result.input_bytes) / 1e6,
               meter.seconds(),
               static_cast<double>(result.input_bytes) / 1e6 / std::max(meter.seconds(), 1e-3));
  return 0;
}

int prepare_alone_or_with_peers(PrepareArguments args, const CommonOptions& common) {
  const World world = find_world({});
  args.options.threads = common.threads.value_or(0);
  if (world.size == 1) return prepare_files(std::move(args), nullptr);
  if (args.options.threads == 0) {  // this process's share of the machine
    const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
    args.options.threads = std::max<int64_t>(1, cores / world.local_size);
  }
  return prepare_with_peers(
      world, common, [&](BlockExchange& exchange) { return prepare_files(args, &exchange); });
}

}  // namespace

CommandEntry add_prepare_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("prepare", "Tokenise texts once, for training");
  auto args = std::make_shared<PrepareArguments>();
  command->add_option("INPUT",
                      args->inputs,
                      "Files, folders (all .txt and .jsonl below), patterns ('texts/*.jsonl.zst'); "
                      ".gz and .zst are decompressed");
  command
      ->add_option(
          "--tokenizer",
          args->options.tokenizer,
          "char, bpe:N (learns N ids from the text), byte, gpt2, a tokenizer.json, or nanoGPT's "
          "meta.pkl")
      ->capture_default_str();
  command->add_option(
      "--vocab", args->vocab, "With gpt2: the folder of encoder.json and vocab.bpe");
  command->add_flag("--allow-special",
                    args->allow_special,
                    "Special tokens in the text, such as <|endoftext|>, become their ids");
  command->add_option(
      "--out", args->out, "Folder for train.tokens, validation.tokens, tokenizer.json");
  command
      ->add_option("--validation-fraction",
                   args->options.validation_fraction,
                   "Share of the text for validation; 0: none")
      ->capture_default_str();
  const std::map<std::string, SplitBy> kSplits{
      {"auto", SplitBy::kAuto}, {"share", SplitBy::kShare}, {"document", SplitBy::kDocument}};
  command
      ->add_option("--split",
                   args->options.split,
                   "What is for validation: share (the end), document (single documents, spread "
                   "evenly), auto (of documents document, of one running text share)")
      ->transform(CLI::CheckedTransformer(kSplits))
      ->type_name("auto|share|document");
  command->add_option("--field", args->options.field, "Of JSON lines: the key of the text")
      ->capture_default_str();
  command->add_option("--separator",
                      args->options.separator,
                      "What stands between the documents of a text file, for example "
                      "'<|endoftext|>'; it is left out");
  command
      ->add_option("--shard-tokens",
                   args->options.shard_tokens,
                   "Ids per token file (train_00000.tokens, ...); 0: one file")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60));
  command->add_flag("--overwrite", args->options.overwrite, "Replace files that are there");
  command->add_flag("--normalize-newlines", args->normalize_newlines, "CR LF and CR become LF");
  command->add_option("--describe",
                      args->describe,
                      "Say what a token file holds (also a pattern, or a prepared folder)");
  std::map<std::string, DataFormat> formats;
  for (const auto& entry : kDataFormatNames) {
    if (entry.value != DataFormat::kText) formats.emplace(entry.name, entry.value);
  }
  command->add_option("--format", args->format, "With --describe: the kind of file")
      ->transform(CLI::CheckedTransformer(formats))
      ->type_name("auto|tril|llmc|uint16|hdf5");
  command->add_flag("--json", args->json, "With --describe: one JSON object on stdout");
  command->footer(
      R"(One text file is one running text. Several files of a tokenizer with an end-of-text, JSON lines,
and parts between separators are documents: an end-of-text id (or, where there is none, a newline)
stands after each. The result does not depend on --threads.
Examples:
  tril prepare book.txt --tokenizer char --out data/book
  tril prepare texts/ more/*.jsonl.zst --tokenizer gpt2 --shard-tokens 100000000 --out data/all
  tril train --config configs/quickstart.json --set data.train=data/all
  tril launch --nproc 4 -- prepare texts/ --tokenizer gpt2 --out data/all   (or torchrun, srun, mpirun)
  tril prepare --describe data/book/train.tokens)");
  return {command, [args, &common] {
            return args->describe.empty() ? prepare_alone_or_with_peers(*args, common)
                                          : describe(*args);
          }};
}

}  // namespace tril::cli
