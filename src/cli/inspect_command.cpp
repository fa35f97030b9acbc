// tril inspect: looks into a trained model. Each subcommand has a file of its own.

#include <vector>

#include "inspect_commands.h"

namespace tril::cli {

CommandEntry add_inspect_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("inspect", "Look into a trained model: is it what it claims?");
  command->require_subcommand(1);
  const std::vector<CommandEntry> entries = {add_inspect_check_command(*command, common)};
  command->footer(R"(Examples:
  tril inspect check runs/quickstart)");
  return {command, [entries] {
            for (const CommandEntry& entry : entries) {
              if (entry.app->parsed()) return entry.run();
            }
            return 2;
          }};
}

}  // namespace tril::cli
