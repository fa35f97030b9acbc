// Damaged and foreign files, given to the real program: every command refuses them with the file's
// name, or is not touched by them; none crashes, hangs or changes anything else. The same in large
// numbers, inside one process: tests/checkpoint/damage_test.cpp.

#include "faults/campaign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

struct Victim {
  const char* path;     ///< below the workspace
  const char* command;  ///< what meets it
  int exit_code;        ///< of a refusal
};

constexpr Victim kVictims[] = {
    {"run/checkpoints/step_00000010/model.safetensors", "generate run --max-new-tokens 3", 4},
    {"run/checkpoints/step_00000010/optimizer.safetensors",
     "train --run-dir run --resume --set train.steps=11",
     4},
    {"run/checkpoints/step_00000010/state.json", "evaluate run --json", 4},
    {"run/checkpoints/step_00000010/config.json", "generate run --max-new-tokens 3", 4},
    {"run/checkpoints/step_00000010/tokenizer.json", "generate run --max-new-tokens 3", 4},
    {"run/checkpoints/step_00000010/manifest.json", "checkpoint verify run --checkpoint 10", 4},
    {"data/train.tokens", "train --config data.json --run-dir new --overwrite", 3},
    {"data/tokenizer.json", "tokenizer encode --tokenizer data/tokenizer.json text.txt", 3},
    {"tiny.json", "train --config tiny.json --run-dir new --overwrite", 2},
};

/// One kind of damage; `i` chooses among its forms.
std::string damaged(const std::string& good, int i, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  switch (i % 12) {
    case 0:
      return "";
    case 1:
      return good.substr(0, 1);
    case 2:
      return good.substr(0, 7);
    case 3:
      return good.substr(0, good.size() / 2);
    case 4:
      return good.substr(0, good.size() - 1);
    case 5:
      return good + good.substr(0, 1 + below(64));
    case 6:
      return std::string(good.size(), '\0');
    case 7: {  // of another kind
      static const std::array<std::string, 4> kForeign = {
          "PK\x03\x04 a zip archive",
          "GGUF\x03",
          "version https://git-lfs.github.com/spec/v1\n",
          "\x80\x04."};
      return kForeign[below(kForeign.size())];
    }
    case 8: {  // a piece in the middle lost
      std::string text = good;
      text.erase(text.size() / 3, 1 + text.size() / 5);
      return text;
    }
    default: {
      std::string text = good;
      const size_t at = below(text.size());
      text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return text;
    }
  }
}

}  // namespace

TEST_CASE("every command refuses damaged files by name and changes nothing",
          "[cli][faults][slow]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  workspace.require("prepare text.txt --tokenizer char --out data");
  write_text(workspace / "data.json", R"({"threads": 1, "data": {"train": "data/train.tokens",
    "validation_fraction": 0}, "model": {"context_length": 16, "n_embed": 16, "n_head": 2,
    "n_blocks": 1}, "train": {"steps": 2, "batch_size": 4}})");
  const std::string older = final_weights(workspace / "run", 5);
  std::mt19937 random = fault_random();
  const int n = n_events("DAMAGE", 36);
  Tally tally("damaged file", "given to the program: cut, flipped, foreign, lengthened");
  for (int i = 0; i < n; ++i) {
    const Victim& victim = kVictims[static_cast<size_t>(i) % std::size(kVictims)];
    const fs::path path = workspace / victim.path;
    const std::string good = read_text(path);
    const std::string bad = damaged(good, i / static_cast<int>(std::size(kVictims)) + i, random);
    write_text(path, bad);
    const auto result = workspace.tril(victim.command);
    INFO("damage " << i << " of " << victim.path << " (" << good.size() << " to " << bad.size()
                   << " bytes)\n"
                   << result.command << "\n"
                   << result.err);
    REQUIRE_FALSE(result.timed_out);
    CHECK(result.err.find("bug in tril") == std::string::npos);
    // Text files have no checksum of their own: a changed byte may still be a valid file.
    const bool is_checkpoint = victim.exit_code == 4;
    if (bad != good && is_checkpoint) {
      CHECK(result.exit_code == 4);
      CHECK_THAT(result.err, ContainsSubstring(fs::path(victim.path).filename().string()));
    } else {
      CHECK((result.exit_code == 0 || result.exit_code == 2 || result.exit_code == 3));
    }
    CHECK(read_text(path) == bad);  // what is damaged stays for whoever can repair it
    write_text(path, good);
    CHECK(final_weights(workspace / "run", 5) == older);
    tally.count(result.exit_code == 0 ? "harmless" : "refused by name");
  }
  CHECK(workspace.tril("checkpoint verify run").exit_code == 0);
}

TEST_CASE("files that stand for other files are refused", "[cli][faults]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  const fs::path folder = checkpoint_folder(workspace / "run", 10);
  SECTION("swapped between checkpoints") {
    const fs::path other = checkpoint_folder(workspace / "run", 5);
    fs::copy_file(other / "model.safetensors",
                  folder / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    CHECK_THAT(refused(workspace.tril("generate run"), 4), ContainsSubstring("model.safetensors"));
  }
  SECTION("swapped within a checkpoint") {
    fs::rename(folder / "model.safetensors", folder / "kept");
    fs::rename(folder / "optimizer.safetensors", folder / "model.safetensors");
    fs::rename(folder / "kept", folder / "optimizer.safetensors");
    CHECK_THAT(refused(workspace.tril("generate run"), 4), ContainsSubstring("safetensors"));
  }
  SECTION("a folder, a pipe, a device") {
    for (const char* make : {"mkdir", "mkfifo", "ln -s /dev/zero"}) {
      fs::remove_all(folder / "model.safetensors");
      const auto made =
          workspace.bash(std::string(make) + " " + (folder / "model.safetensors").string());
      REQUIRE(made.exit_code == 0);
      const auto result = workspace.tril("generate run", {}, {.timeout_seconds = 20});
      CHECK_FALSE(result.timed_out);
      CHECK_THAT(refused(result, 4), ContainsSubstring("model.safetensors"));
    }
  }
}

TEST_CASE("a stranger's run cannot write outside its folder", "[cli][faults]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  write_text(workspace / "precious.txt", "mine\n");
  const std::string resume = "train --run-dir run --resume --set train.steps=12";
  for (const char* name : {"metrics.jsonl", "train.log", "config.json", "tokenizer.json", "lock"}) {
    INFO(name);
    fs::remove(workspace / "run" / name);
    fs::create_symlink(workspace / "precious.txt", workspace / "run" / name);
    const auto result = workspace.tril(resume);
    INFO(result.err);
    CHECK(result.err.find("bug in tril") == std::string::npos);
    CHECK(read_text(workspace / "precious.txt") == "mine\n");
    fs::remove(workspace / "run" / name);
  }
  fs::create_directory(workspace / "elsewhere");
  fs::rename(workspace / "run/checkpoints", workspace / "elsewhere/checkpoints");
  fs::create_directory_symlink(workspace / "elsewhere/checkpoints", workspace / "run/checkpoints");
  const auto names = names_in(workspace / "elsewhere/checkpoints");
  CHECK_THAT(refused(workspace.tril(resume + "0"), 2), ContainsSubstring("is a link"));
  CHECK(names_in(workspace / "elsewhere/checkpoints") == names);
}
