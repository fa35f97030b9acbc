// tril inspect attention: which token looks where, in every head.

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "inspect_commands.h"
#include "inspect_input.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/inspect/attention_maps.h"
#include "tril/inspect/attention_report.h"
#include "tril/inspect/head_scores.h"
#include "tril/plot/terminal_chart.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace {

/// Maps of more than this are refused, and pages too: a browser would not bear them.
constexpr int64_t kMostMapBytes = int64_t{2} << 30;
constexpr int64_t kMostPageBytes = int64_t{96} << 20;

/// Of the map in the terminal, which has as many rows: a larger one would fill pages.
constexpr size_t kMapColumns = 64;

struct AttentionArguments {
  RunArgument run;
  TextArgument text;
  HeadSelection selection;
  int64_t match = 0;
  int64_t windows = 1;
  std::vector<std::string> out;
  bool json = false;
};

size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

AttentionReport make_report(const AttentionArguments& args, LoadedRun& run) {
  const ModelConfig& config = run.config.model;
  std::vector<std::vector<int64_t>> texts;
  if (args.windows > 1) {
    if (args.text.prompt || !args.text.prompt_file.empty()) {
      throw ConfigError("--windows takes texts of the validation split; leave out --prompt");
    }
    texts = validation_windows(run, args.windows, config.context_length);
  } else {
    texts.push_back(text_ids(args.text, run, config.context_length));
  }
  AttentionReport report;
  report.ids = texts.front();
  const auto n_tokens = static_cast<int64_t>(report.ids.size());
  if (attention_map_bytes(config, args.selection, n_tokens) > kMostMapBytes) {
    throw ConfigError(fmt::format(
        "the maps of {} tokens would take {:.1f} GB: choose one with --block and --head, or a "
        "shorter text",
        n_tokens,
        static_cast<double>(attention_map_bytes(config, args.selection, n_tokens)) / 1e9));
  }
  AttentionMaps maps = attention_maps(run.model, report.ids, args.selection);
  report.run = std::filesystem::path(args.run.run).lexically_normal().string();
  report.step = run.state.step;
  report.n_blocks = config.n_blocks;
  report.n_head = config.n_head;
  report.tokens = token_texts(*run.tokenizer, report.ids);
  report.match = args.match > 0 ? args.match : default_match(run.tokenizer->kind());
  report.path_difference = maps.path_difference;
  report.n_texts = static_cast<int64_t>(texts.size());
  std::vector<std::vector<HeadScores>> scores(maps.heads.size());
  const auto add_scores = [&](const AttentionMaps& of_text, const std::vector<int64_t>& ids) {
    for (size_t h = 0; h < scores.size(); ++h) {
      scores[h].push_back(score_head(of_text.heads[h].weights, ids, report.match));
    }
  };
  add_scores(maps, report.ids);
  for (size_t i = 1; i < texts.size(); ++i) {
    if (stop_signal() != 0) break;
    add_scores(attention_maps(run.model, texts[i], args.selection), texts[i]);
  }
  for (size_t h = 0; h < scores.size(); ++h) {
    auto& map = maps.heads[h];
    report.heads.push_back(
        {map.block, map.head, std::move(map.weights), average_scores(scores[h])});
  }
  return report;
}

int inspect_attention(const AttentionArguments& args, const CommonOptions& common) {
  require_known_endings(args.out, {".html", ".svg", ".json", ".csv"});
  LoadedRun run = load_run(args.run, common);
  const AttentionReport report = make_report(args, run);
  write_outputs(args.out,
                {{".html",
                  [&] {
                    const auto bytes = attention_page_bytes(report.ids.size(), report.heads.size());
                    if (bytes > kMostPageBytes) {
                      throw ConfigError(
                          fmt::format("the page would have {} MB: choose heads with --block and "
                                      "--head, or a shorter text",
                                      bytes / 1'000'000));
                    }
                    return attention_page(report);
                  }},
                 {".svg", [&] { return attention_svg(report); }},
                 {".json", [&] { return dump_json(attention_json(report), /*indent=*/-1) + "\n"; }},
                 {".csv", [&] { return attention_csv(report); }}});
  if (args.json) {
    write_out(dump_json(attention_json(report), /*indent=*/-1) + "\n");
    return 0;
  }
  if (stop_signal() != 0) return 128 + stop_signal();
  if (!args.out.empty()) return 0;
  const ReportedHead& head = most_telling_head(report);
  write_out(attention_table(report) + "\n" +
            attention_text_map(
                report, head, std::min(terminal_columns(), kMapColumns), terminal_shows_utf8()));
  print_out("\nheads one by one and fused attention differ by at most {:.1g}\n",
            report.path_difference);
  return 0;
}

}  // namespace

CommandEntry add_inspect_attention_command(CLI::App& inspect, CommonOptions& common) {
  auto* command =
      inspect.add_subcommand("attention", "Which token looks where, in every block and head");
  auto args = std::make_shared<AttentionArguments>();
  add_run_argument(*command, args->run);
  add_text_argument(*command, args->text);
  command->add_option("--block", args->selection.block, "Only this block, from 0");
  command->add_option("--head", args->selection.head, "Only this head of each block, from 0");
  command
      ->add_option(
          "--match",
          args->match,
          "How many tokens must repeat to count as a mention (0: 3 for characters, else 1)")
      ->check(CLI::Range(int64_t{0}, int64_t{1000}));
  command
      ->add_option("--windows",
                   args->windows,
                   "Scores over so many texts of the validation split (the maps are of the first)")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();
  command
      ->add_option("--out", args->out, "Write a file: .html (a page with hover), .svg, .json, .csv")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(
      R"(Without --out or --json: what each head does, and one map, here in the terminal.
Examples:
  tril inspect attention runs/quickstart --prompt "Anna met Otto. Otto saw Anna."
  tril inspect attention runs/quickstart --out attention.html
  tril inspect attention runs/quickstart --windows 50
  tril inspect attention runs/quickstart --block 2 --head 1 --out head.svg --out head.csv)");
  return {command, [args, &common] { return inspect_attention(*args, common); }};
}

}  // namespace tril::cli
