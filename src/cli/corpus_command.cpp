// tril corpus: the bundled text, made to order.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "commands.h"
#include "tril/base/file.h"
#include "tril/data/tales.h"

namespace tril::cli {

CommandEntry add_corpus_command(CLI::App& app, CommonOptions&) {
  struct Arguments {
    int64_t bytes = 8'000'000;
    uint64_t seed = 1;
    std::string out;
  };
  auto* command = app.add_subcommand("corpus", "Make a text to train on");
  command->require_subcommand(1);
  auto args = std::make_shared<Arguments>();
  auto* tales = command->add_subcommand(
      "tales", "Fables drawn from a grammar, so that their entropy is known exactly");
  tales->add_option("--bytes", args->bytes, "At least so many bytes of whole fables")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 36))
      ->capture_default_str();
  tales->add_option("--seed", args->seed, "Another seed tells other fables")->capture_default_str();
  tales->add_option("--out", args->out, "The text file; FILE.marks beside it holds -log P so far")
      ->required();
  for (auto* app_with_help : {command, tales}) {
    app_with_help->footer("Example:\n  tril corpus tales --bytes 1000000 --seed 7 --out tales.txt");
  }
  return {command, [args] {
            const TalesText text = make_tales(args->bytes, args->seed);
            write_tales_side_file(args->out + ".marks", text.marks);
            write_file_atomically(args->out, text.text);
            const double nats = text.marks.back().nats;
            spdlog::info("{}: {} bytes, {} fables, {:.4f} nats per character",
                         args->out,
                         text.text.size(),
                         text.marks.size(),
                         nats / static_cast<double>(text.text.size()));
            return 0;
          }};
}

}  // namespace tril::cli
