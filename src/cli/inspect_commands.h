#pragma once
// The subcommands of `tril inspect`, one file each.

#include "commands.h"

namespace tril::cli {

CommandEntry add_inspect_check_command(CLI::App& inspect, CommonOptions& common);

}  // namespace tril::cli
