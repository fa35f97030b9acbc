// tril inspect: looks into a trained model. Each subcommand has a file of its own.

#include <vector>

#include "inspect_commands.h"

namespace tril::cli {

CommandEntry add_inspect_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand(
      "inspect", "Look into a trained model: what its heads attend to, its weights, its surprise");
  command->require_subcommand(1);
  const std::vector<CommandEntry> entries = {add_inspect_attention_command(*command, common),
                                             add_inspect_weights_command(*command, common),
                                             add_inspect_tokens_command(*command, common),
                                             add_inspect_check_command(*command, common)};
  command->footer(R"(Examples:
  tril inspect attention runs/quickstart --prompt "In the old orchard" --out attention.html
  tril inspect weights runs/quickstart
  tril inspect tokens runs/quickstart --prompt "In the old orchard"
  tril inspect check runs/quickstart)");
  return {command, [entries] {
            for (const CommandEntry& entry : entries) {
              if (entry.app->parsed()) return entry.run();
            }
            return 2;
          }};
}

}  // namespace tril::cli
