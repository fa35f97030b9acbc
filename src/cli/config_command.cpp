// tril config: what a config file means.

#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "output.h"
#include "tril/base/json.h"
#include "tril/config/run_config.h"

namespace tril::cli {
namespace {

struct ConfigArguments {
  std::optional<std::string> file;
  std::vector<std::string> sets;
};

RunConfig load(const ConfigArguments& args) {
  std::optional<std::filesystem::path> file;
  if (args.file) file = *args.file;
  return load_run_config(file, args.sets);
}

}  // namespace

CommandEntry add_config_command(CLI::App& app, CommonOptions&) {
  auto* command = app.add_subcommand("config", "Show, check and describe configs");
  command->require_subcommand(1);
  auto args = std::make_shared<ConfigArguments>();
  const auto add_source = [&](CLI::App* sub) {
    sub->add_option("FILE", args->file, "A config file (default: none, every key at its default)");
    sub->add_option("--set", args->sets, "Override one key")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
  };
  auto* show =
      command->add_subcommand("show", "Print the resolved config: every key, absolute paths");
  add_source(show);
  auto* check =
      command->add_subcommand("check", "Say whether a config is valid, and what is wrong");
  add_source(check);
  auto* describe =
      command->add_subcommand("describe", "Every key: meaning, unit, default (Markdown)");
  command->footer(R"(Examples:
  tril config check configs/smoke.json
  tril config show configs/smoke.json --set train.steps=200)");
  return {command, [=] {
            if (describe->parsed()) {
              print_out("{}", describe_config());
              return 0;
            }
            const RunConfig config = load(*args);
            if (show->parsed()) {
              print_out("{}\n", dump_json(to_json(config)));
            } else {
              print_out("{}: valid\n", args->file.value_or("defaults"));
            }
            return 0;
          }};
}

}  // namespace tril::cli
