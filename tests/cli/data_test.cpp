// Data of every kind through the real program: prepare many files, train on lists, shards and
// foreign files, go on exactly.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

constexpr const char* kTinyTraining = "train --config tiny.json --run-dir ";

std::string json_lines(int n) {
  std::string lines;
  for (int i = 0; i < n; ++i) {
    lines += R"({"id": )" + std::to_string(i) + R"(, "text": "the cat )" + std::to_string(i % 10) +
             " sat on the mat\"}\n";
  }
  return lines;
}

}  // namespace

TEST_CASE("a folder of texts and JSON lines becomes shards that train", "[cli][data]") {
  const Workspace workspace;
  fs::create_directory(workspace / "texts");
  write_text(workspace / "texts/a.jsonl", json_lines(200));
  write_text(workspace / "texts/b.txt", small_text());
  const auto prepared = workspace.require("prepare texts --out data --shard-tokens 1000");
  CHECK_THAT(prepared.err, ContainsSubstring("documents)") && ContainsSubstring("shards"));
  CHECK_THAT(prepared.err, ContainsSubstring("MB/s"));
  const auto names = names_in(workspace / "data");
  CHECK(std::find(names.begin(), names.end(), "train_00003.tokens") != names.end());
  const tril::Json whole = workspace.json("prepare --describe data --json");
  CHECK(whole.at("files").get<int>() >= 4);
  CHECK(whole.at("documents").is_null());  // characters have no end-of-text
  const tril::Json shard = workspace.json("prepare --describe data/train_00000.tokens --json");
  CHECK(shard.at("tokens") == 1000);

  const auto trained =
      workspace.require(std::string(kTinyTraining) + "run --set data.train=./data");
  CHECK_THAT(
      trained.err,
      ContainsSubstring(std::to_string(whole.at("tokens").get<int64_t>()) + " training tokens"));
  workspace.json("evaluate run --json");
  workspace.json("evaluate run --json --data data");
}

TEST_CASE("a run on weighted files does not go on with other weights", "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "other.txt", repeat("a dog on a log\n", 100));
  write_text(workspace / "list.json", R"({
    "extends": "tiny.json",
    "data": {"train": [{"file": "text.txt", "weight": 3}, {"file": "other.txt", "weight": 1}]}
  })");
  workspace.require("train --config list.json --run-dir run");
  const auto other = workspace.tril(
      "train --run-dir run --resume --set train.steps=12 --set",
      {R"(data.train=[{"file": "./text.txt", "weight": 1}, {"file": "./other.txt", "weight": 1}])"});
  CHECK_THAT(refused(other, 3), ContainsSubstring("training data is not what"));
  CHECK_THAT(refused(workspace.tril("train --config list.json --run-dir x --set",
                                    {R"(data.train=[{"file": "./text.txt"}, 7])"}),
                     2),
             ContainsSubstring("data.train[1]"));
}

TEST_CASE("a killed run on weighted files gives the same weights as one that was not",
          "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "other.txt", repeat("a dog on a log\n", 100));
  const std::vector<std::string> list = {
      R"(data.train=[{"file": "text.txt", "weight": 3}, {"file": "other.txt", "weight": 1}])"};
  workspace.require(std::string(kTinyTraining) + "straight --set", list);
  workspace.require(std::string(kTinyTraining) + "stopped --set", list);
  // Back to the middle: as if it had been killed after step 5.
  fs::remove_all(checkpoint_folder(workspace / "stopped", 10));
  workspace.require("train --run-dir stopped --resume");
  CHECK(weights_of(workspace, "straight", 10) == weights_of(workspace, "stopped", 10));
}

TEST_CASE("a run on a BPE vocabulary of its own text resumes, generates and evaluates",
          "[cli][data]") {
  const Workspace workspace;
  const std::string bpe = " --set data.tokenizer=bpe:270";
  workspace.require(kTinyTraining + ("straight" + bpe));
  workspace.require(kTinyTraining + ("stopped" + bpe));
  fs::remove_all(checkpoint_folder(workspace / "stopped", 10));
  workspace.require("train --run-dir stopped --resume");
  CHECK(weights_of(workspace, "straight", 10) == weights_of(workspace, "stopped", 10));
  const auto info = workspace.json("tokenizer info --tokenizer straight/tokenizer.json --json");
  CHECK(info.at("kind") == "bpe");
  CHECK(info.at("vocab_size") <= 270);
  workspace.require("generate straight --prompt the --max-new-tokens 4");
  workspace.require("evaluate straight");
  // Weights to go on from bring their tokenizer.
  workspace.require("train --config tiny.json --run-dir tuned --set init_from=./straight" + bpe +
                    "1");
  CHECK(read_text(workspace / "tuned/tokenizer.json") ==
        read_text(workspace / "straight/tokenizer.json"));
  CHECK_THAT(refused(workspace.tril(kTinyTraining + ("x" + bpe + "0000")), 2),
             ContainsSubstring("1048576"));
}

TEST_CASE("ids without a header train when their tokenizer is named", "[cli][data]") {
  const Workspace workspace;
  std::string ids;
  for (const char c : small_text()) ids += {c, '\0'};
  write_text(workspace / "train.bin", ids);
  const std::string train = std::string(kTinyTraining) + "run --set data.train=train.bin ";
  CHECK_THAT(refused(workspace.tril(train + "--set data.format=uint16"), 3),
             ContainsSubstring("does not say what its ids mean"));
  workspace.require(train + "--set data.format=uint16 --set data.tokenizer=byte");
  CHECK(workspace.json("evaluate run --json").at("tokens") ==
        static_cast<int64_t>(small_text().size()) -
            static_cast<int64_t>(static_cast<double>(small_text().size()) * 0.9) - 1);
}

TEST_CASE("a stopped prepare leaves nothing and says so with its exit code", "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "large.txt", repeat(small_text(), 20'000));  // 40 MB
  for (const int signal : {SIGINT, SIGTERM}) {
    auto process = workspace.start("prepare large.txt --out deep/data");
    // Stopped when it is at work: its hidden folder is there.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!fs::exists(workspace / "deep/data") && process->is_running() &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process->send(signal);
    const ProcessResult result = process->wait();
    CHECK((result.exit_code == 128 + signal));
    CHECK_FALSE(fs::exists(workspace / "deep"));
  }
}
