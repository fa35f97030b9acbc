// tril inspect weights: sizes, spectra, and neighbours in the embedding.

#include <filesystem>
#include <memory>
#include <numeric>

#include "inspect_commands.h"
#include "inspect_input.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/inspect/weight_report.h"

namespace tril::cli {
namespace {

/// Of larger vocabularies only the first ids, unless --token names some.
constexpr int64_t kMostNeighbourTokens = 200;

struct WeightsArguments {
  RunArgument run;
  std::vector<std::string> tokens;
  int64_t neighbours = 5;
  std::vector<std::string> out;
  bool json = false;
};

std::vector<int64_t> wanted_tokens(const WeightsArguments& args, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  for (const auto& text : args.tokens) {
    for (const int32_t id : tokenizer.encode(text)) ids.push_back(id);
  }
  if (args.tokens.empty()) {
    ids.resize(static_cast<size_t>(std::min(tokenizer.vocab_size(), kMostNeighbourTokens)));
    std::iota(ids.begin(), ids.end(), int64_t{0});
  }
  return ids;
}

int inspect_weights(const WeightsArguments& args, const CommonOptions& common) {
  require_known_endings(args.out, {".html", ".json", ".csv"});
  const LoadedRun run = load_run(args.run, common);
  WeightReport report;
  report.run = std::filesystem::path(args.run.run).lexically_normal().string();
  report.step = run.state.step;
  report.weights = summarize_weights(run.model);
  report.neighbours = embedding_neighbours(
      run.model, wanted_tokens(args, *run.tokenizer), run.tokenizer->vocab_size(), args.neighbours);
  std::vector<int64_t> all(static_cast<size_t>(run.tokenizer->vocab_size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  report.tokens = token_texts(*run.tokenizer, all);

  write_outputs(args.out,
                {{".html", [&] { return weight_page(report); }},
                 {".json", [&] { return dump_json(weight_json(report)) + "\n"; }},
                 {".csv", [&] { return weight_csv(report); }}});
  if (args.json) {
    write_out(dump_json(weight_json(report), /*indent=*/-1) + "\n");
  } else if (args.out.empty()) {
    write_out(weight_text(report));
  }
  return 0;
}

}  // namespace

CommandEntry add_inspect_weights_command(CLI::App& inspect, CommonOptions& common) {
  auto* command = inspect.add_subcommand(
      "weights", "Sizes and spectra of all weights; tokens that the embedding holds alike");
  auto args = std::make_shared<WeightsArguments>();
  add_run_argument(*command, args->run);
  command
      ->add_option("--token",
                   args->tokens,
                   "Neighbours of the tokens of this text (default: all, up to 200)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_option("--neighbours", args->neighbours, "How many for each")
      ->check(CLI::Range(int64_t{0}, int64_t{1000}))
      ->capture_default_str();
  command->add_option("--out", args->out, "Write a file: .html (a page), .json, .csv")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(R"(Examples:
  tril inspect weights runs/quickstart
  tril inspect weights runs/quickstart --token aeiou --out weights.html)");
  return {command, [args, &common] { return inspect_weights(*args, common); }};
}

}  // namespace tril::cli
