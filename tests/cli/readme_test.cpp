// The README's commands are run as they stand, in order, in one scratch copy of what they need.

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

bool is_command(const std::string& line) {
  return line.starts_with("tril ") || line.starts_with("build/release/tril ") ||
         line.starts_with("scripts/");
}

/// The commands in the fenced sh blocks of a Markdown text: lines that call tril or a script, with
/// their continuation lines ("\" at the end).
std::vector<std::string> commands_of(const std::string& markdown) {
  std::vector<std::string> commands;
  std::istringstream lines(markdown);
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = !in_block && (line == "```sh" || line == "```bash");
      continue;
    }
    if (!in_block || !is_command(line)) continue;
    std::string command = line;
    while (command.ends_with('\\') && std::getline(lines, line)) command += "\n" + line;
    commands.push_back(command);
  }
  return commands;
}

/// A program named tril that runs the real one, and cuts every training to three steps on a small
/// corpus: all else of a command is as the README has it.
void write_short_tril(const fs::path& path) {
  fs::create_directories(path.parent_path());
  write_text(path,
             std::string("#!/bin/sh\nif [ \"$1\" = train ]; then\n  exec '") + TRIL_BINARY +
                 "' \"$@\" --set train.steps=3 --set train.eval_tokens=2000 "
                 "--set data.tales_bytes=100000 --set train.sample_tokens=20\nfi\nexec '" +
                 TRIL_BINARY + "' \"$@\"\n");
  fs::permissions(path, fs::perms::owner_all);
}

/// Runs every command of a page of ours in a copy of what they need. Pages under docs/ begin where
/// scripts/quickstart.sh ends.
void run_commands_of(const std::string& page) {
  const Workspace workspace;
  const auto commands = commands_of(read_text(kProject / page));
  REQUIRE(commands.size() >= 3);
  for (const char* folder : {"configs", "scripts", "data"}) {
    fs::copy(kProject / folder, workspace / folder, fs::copy_options::recursive);
  }
  fs::create_directory(workspace / "runs");
  write_short_tril(workspace / "build/release/tril");
  ProcessOptions with;
  with.environment["PATH"] = (workspace / "build/release").string() + ":" + std::getenv("PATH");

  const auto run = [&](const std::string& command) {
    const auto result = workspace.bash(command, with);
    INFO(command << "\n" << result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(result.timed_out);
  };
  const std::string quickstart = "tril train --config configs/quickstart.json --resume=auto";
  if (page.starts_with("docs/")) run(quickstart);
  for (const auto& command : commands) {
    if (!command.starts_with("scripts/")) {
      run(command);
      continue;
    }
    const fs::path script = workspace / split_words(command).front();
    INFO(command);
    REQUIRE(fs::exists(script));
    CHECK((fs::status(script).permissions() & fs::perms::owner_exec) != fs::perms::none);
    // What the script leaves behind for the commands after it, without setting up and building.
    if (script.filename() == "quickstart.sh") run(quickstart);
  }
}

}  // namespace

TEST_CASE("commands are found in fenced sh blocks only", "[cli][readme]") {
  CHECK(commands_of("tril no\n"
                    "```sh\n"
                    "tril train \\\n  --resume\n"
                    "# tril comment\n"
                    "cmake --preset release\n"
                    "scripts/test.sh --quick\n"
                    "```\n"
                    "tril no\n"
                    "```text\ntril no\n```\n"
                    "```bash\nbuild/release/tril doctor\n```\n") ==
        std::vector<std::string>{
            "tril train \\\n  --resume", "scripts/test.sh --quick", "build/release/tril doctor"});
}

TEST_CASE("every command of the README works", "[cli][readme]") {
  run_commands_of("README.md");
}

TEST_CASE("every command of the pages on metrics and attention works", "[cli][readme]") {
  for (const char* page : {"docs/metrics.md", "docs/attention.md"}) run_commands_of(page);
}

TEST_CASE("every script is sound shell", "[cli][readme]") {
  int n_scripts = 0;
  for (const auto& entry : fs::directory_iterator(kProject / "scripts")) {
    if (entry.path().extension() != ".sh") continue;
    ++n_scripts;
    const auto result = run_process({"bash", "-n", entry.path().string()});
    INFO(entry.path().string() << "\n" << result.err);
    CHECK(result.exit_code == 0);
  }
  for (const char* name : {"quickstart.sh", "test.sh", "setup.sh"}) {
    CHECK(fs::exists(kProject / "scripts" / name));
  }
  CHECK(n_scripts >= 3);
}
