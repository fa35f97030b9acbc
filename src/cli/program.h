#pragma once
// What both programs are: a command line, one command that runs, errors that become exit codes.

#include <exception>
#include <functional>
#include <vector>

#include "commands.h"

namespace tril::cli {

inline constexpr int kExitBug = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitResources = 6;

/// Adds a program's commands to the app.
using AddCommands = std::function<std::vector<CommandEntry>(CLI::App&, CommonOptions&)>;

/// Says what an error means that is none of tril's own, and returns the exit code.
using ReportForeign = std::function<int(const std::exception&, bool debug)>;

/// Logs the message as an error; returns `exit_code`.
int report_error(int exit_code, const std::string& message);

/// An error that nobody expected.
int report_bug(const std::exception& error, bool debug);

/// Parses the command line and runs the chosen command. Returns the exit code.
int run_program(int argc,
                char** argv,
                const AddCommands& add_commands,
                const ReportForeign& report_foreign = report_bug);

}  // namespace tril::cli
