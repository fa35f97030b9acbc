// tril inspect tokens: where the model is surprised.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "inspect_commands.h"
#include "inspect_input.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/inspect/token_losses.h"
#include "tril/inspect/token_report.h"

namespace tril::cli {
namespace {

constexpr int64_t kMostTokens = 200'000;

struct TokensArguments {
  RunArgument run;
  TextArgument text;
  std::vector<std::string> out;
  bool json = false;
};

int inspect_tokens(const TokensArguments& args, const CommonOptions& common) {
  require_known_endings(args.out, {".html", ".json", ".csv"});
  LoadedRun run = load_run(args.run, common);
  const auto ids = text_ids(args.text, run, kMostTokens);
  const auto surprise = token_surprise(run.model, ids);

  TokenReport report;
  report.run = std::filesystem::path(args.run.run).lexically_normal().string();
  report.step = run.state.step;
  report.vocab_size = run.config.model.vocab_size;
  const auto text_of = [&](int64_t id) {
    // A model may have more ids than its tokenizer (vocab_size, vocab_multiple).
    return id < run.tokenizer->vocab_size() ? std::string(run.tokenizer->token_bytes(id))
                                            : std::string("(no token)");
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    ReportedToken token{.id = ids[i], .text = text_of(ids[i]), .loss = -1, .guesses = {}};
    if (i > 0) {
      token.loss = surprise[i - 1].loss;
      token.rank = surprise[i - 1].rank;
      for (const auto& guess : surprise[i - 1].guesses) {
        token.guesses.push_back({text_of(guess.id), guess.probability});
      }
    }
    report.tokens.push_back(std::move(token));
  }

  write_outputs(args.out,
                {{".html", [&] { return token_page(report); }},
                 {".json", [&] { return dump_json(token_json(report), /*indent=*/-1) + "\n"; }},
                 {".csv", [&] { return token_csv(report); }}});
  if (args.json) {
    write_out(dump_json(token_json(report), /*indent=*/-1) + "\n");
  } else if (args.out.empty()) {
    const bool color = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
    write_out(token_text(report, color));
  }
  return 0;
}

}  // namespace

CommandEntry add_inspect_tokens_command(CLI::App& inspect, CommonOptions& common) {
  auto* command =
      inspect.add_subcommand("tokens", "The loss of each token: where the model is surprised");
  auto args = std::make_shared<TokensArguments>();
  add_run_argument(*command, args->run);
  add_text_argument(*command, args->text);
  command->add_option("--out", args->out, "Write a file: .html (a coloured page), .json, .csv")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--json", args->json, "One JSON object on stdout");
  command->footer(R"(Examples:
  tril inspect tokens runs/quickstart
  tril inspect tokens runs/quickstart --prompt "Anna met Otto. Otto saw Anna." --out tokens.html)");
  return {command, [args, &common] { return inspect_tokens(*args, common); }};
}

}  // namespace tril::cli
