#pragma once
// The subcommands of `tril inspect`, one file each.

#include "commands.h"

namespace tril::cli {

CommandEntry add_inspect_check_command(CLI::App& inspect, CommonOptions& common);
CommandEntry add_inspect_attention_command(CLI::App& inspect, CommonOptions& common);
CommandEntry add_inspect_weights_command(CLI::App& inspect, CommonOptions& common);
CommandEntry add_inspect_tokens_command(CLI::App& inspect, CommonOptions& common);

}  // namespace tril::cli
