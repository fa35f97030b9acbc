// tril tokenizer train: a BPE vocabulary from text.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "input_stream.h"
#include "tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/data/text_reader.h"
#include "tril/tokenizer/bpe_trainer.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

struct TrainArguments {
  std::vector<std::string> inputs;
  std::string out;
  std::vector<std::string> special;
  bool no_special = false;
  bool allow_special = false;
  bool overwrite = false;
  BpeTrainOptions options;
};

int train(TrainArguments args, const CommonOptions& common) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::error_code ignored;
  if (std::filesystem::exists(args.out, ignored) && !args.overwrite) {
    throw ConfigError(fmt::format(
        "'{}' is there already: choose another --out, or replace it with --overwrite", args.out));
  }
  BpeTrainOptions options = args.options;
  if (!args.special.empty()) options.special = args.special;
  if (args.no_special) options.special.clear();
  if (args.allow_special) options.special_text = SpecialText::kBecomesId;
  options.threads = common.threads.value_or(0) > 0
                        ? *common.threads
                        : std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  BpeTrainer trainer(options);
  int64_t total_bytes = 0;
  for (const std::string& input : args.inputs) total_bytes += InputStream(input).size();

  Progress progress;
  int64_t n_bytes = 0;
  for (const std::string& name : args.inputs) {
    InputStream input(name);
    std::string block;
    while (input.read(block)) {
      if (stop_signal() != 0) throw Interrupted();
      trainer.add(block);
      n_bytes += static_cast<int64_t>(block.size());
      block.clear();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      progress.activity(
          fmt::format("reading {} MB{}, {:.0f} MB/s",
                      n_bytes / 1'000'000,
                      total_bytes > 0 ? fmt::format(" of {}", total_bytes / 1'000'000) : "",
                      static_cast<double>(n_bytes) / 1e6 / seconds));
    }
    trainer.end_text();
  }
  BpeVocabulary vocabulary;
  try {
    vocabulary = trainer.train(
        [&](int64_t done, int64_t wanted) {
          if (done % 64 == 0) progress.activity(fmt::format("merges {} of {}", done, wanted));
        },
        [] { return stop_signal() != 0; });
  } catch (const BpeTrainer::Stopped&) {
    throw Interrupted();
  }
  const BpeTokenizer tokenizer(std::move(vocabulary), "the trained vocabulary");
  write_file_atomically(args.out, dump_json(tokenizer.to_json()) + "\n");
  progress.clear();
  spdlog::info("{}: {} ids from {} bytes of text with {} different pieces, {:.1f} s",
               args.out,
               tokenizer.vocab_size(),
               n_bytes,
               trainer.distinct_pieces(),
               std::chrono::duration<double>(Clock::now() - start).count());
  if (tokenizer.vocab_size() < options.vocab_size) {
    spdlog::warn("fewer ids than asked for: no other pair occurs {} times in this text",
                 std::max<int64_t>(options.min_frequency, 1));
  }
  if (trainer.thinning() > 1) {
    spdlog::warn(
        "the text has more different pieces than --memory allows: of those over 8 bytes one in {} "
        "was "
        "counted",
        trainer.thinning());
  }
  return 0;
}

}  // namespace

CommandEntry add_tokenizer_train_command(CLI::App& parent, CommonOptions& common) {
  auto* command = parent.add_subcommand("train", "Learn a BPE vocabulary from text");
  auto args = std::make_shared<TrainArguments>();
  command
      ->add_option(
          "FILE", args->inputs, "Texts; - is stdin. No token goes over from one into the next")
      ->required();
  command
      ->add_option(
          "--vocab-size", args->options.vocab_size, "Ids in all: 256 bytes, merges, special tokens")
      ->required();
  command->add_option("--out", args->out, "The tokenizer.json to write")->required();
  command
      ->add_option(
          "--special", args->special, "A special token; may be repeated (default: <|endoftext|>)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_flag("--no-special", args->no_special, "No special token");
  command->add_flag("--allow-special",
                    args->allow_special,
                    "Special tokens in the text separate texts; their characters are not learned");
  command
      ->add_option("--min-frequency",
                   args->options.min_frequency,
                   "A pair that occurs less often is not merged")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 60))
      ->capture_default_str();
  command
      ->add_option("--memory",
                   args->options.piece_memory_bytes,
                   "Bytes that the different pieces may take, for each thread")
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 46))
      ->capture_default_str();
  command->add_flag("--overwrite", args->overwrite, "Replace a file that is there");
  command->footer(
      "Of pairs that occur equally often the one with the smallest ids is merged first: the same "
      "texts\n"
      "give the same file, whatever their order and the number of threads.\n\n"
      "Example:\n  tril tokenizer train corpus/*.txt --vocab-size 4096 --out tokenizer.json");
  return {command, [args, &common] { return train(*args, common); }};
}

}  // namespace tril::cli
