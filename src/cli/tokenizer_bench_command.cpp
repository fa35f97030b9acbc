// tril tokenizer bench: how fast a tokenizer is on a text.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "output.h"
#include "tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/tokenizer/parallel_encode.h"

namespace tril::cli {
namespace {

struct BenchArguments {
  TokenizerArguments common;
  int64_t repeat = 5;
};

template <typename Work>
double median_seconds(int64_t n_times, Work&& work) {
  work();  // once without a clock: caches and memory are as they stay
  std::vector<double> seconds;
  for (int64_t i = 0; i < n_times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

int bench(const BenchArguments& args, const CommonOptions& common) {
  const auto tokenizer = open_tokenizer(args.common);
  const std::string text = read_file(args.common.input, FileRole::kData);
  if (text.empty()) throw DataError(fmt::format("'{}' is empty", args.common.input));
  const int64_t threads = common.threads.value_or(0) > 0
                              ? *common.threads
                              : std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  std::vector<int32_t> ids = tokenizer->encode(text);  // warm
  const double encode = median_seconds(args.repeat, [&] { ids = tokenizer->encode(text); });
  const double parallel =
      median_seconds(args.repeat, [&] { ids = encode_in_parallel(*tokenizer, text, threads); });
  std::string back;
  const double decode = median_seconds(args.repeat, [&] { back = tokenizer->decode(ids); });
  if (back != text) throw Error(1, "decode(encode(text)) is another text");
  const auto megabytes = static_cast<double>(text.size()) / 1e6;
  OrderedJson json;
  json["text_bytes"] = text.size();
  json["tokens"] = ids.size();
  json["encode_mb_per_second"] = megabytes / encode;
  json["threads"] = threads;
  json["parallel_encode_mb_per_second"] = megabytes / parallel;
  json["decode_mb_per_second"] = megabytes / decode;
  if (args.common.json) {
    print_out("{}\n", dump_json(json));
    return 0;
  }
  for (const auto& [key, value] : json.items()) {
    print_out("{:<30} {}\n",
              key,
              value.is_number_float() ? fmt::format("{:.1f}", value.get<double>()) : value.dump());
  }
  return 0;
}

}  // namespace

CommandEntry add_tokenizer_bench_command(CLI::App& parent, CommonOptions& common) {
  auto* command =
      parent.add_subcommand("bench", "Measure encoding and decoding of a text in memory");
  auto args = std::make_shared<BenchArguments>();
  command->add_option("FILE", args->common.input, "A text")->required();
  command->add_option("--tokenizer", args->common.tokenizer, "As for encode")->required();
  command->add_option(
      "--vocab", args->common.vocab, "With gpt2: the folder of encoder.json and vocab.bpe");
  command
      ->add_option(
          "--repeat", args->repeat, "The median of so many runs counts, after one that warms up")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  command->add_flag("--json", args->common.json, "One JSON object on stdout");
  command->footer("Example:\n  tril tokenizer bench --tokenizer gpt2 story.txt --threads 2");
  return {command, [args, &common] { return bench(*args, common); }};
}

}  // namespace tril::cli
