// The real program as several processes: `tril launch`, faults, and going on with another number.

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <thread>

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

std::string launch(int n, const std::string& train) {
  return "launch --nproc " + std::to_string(n) + " -- train --config tiny.json " + train;
}

/// The processes that a launcher has started, by rank.
std::vector<pid_t> children_of(pid_t launcher) {
  const std::string pid = std::to_string(launcher);
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

double largest_loss_difference(const RunLog& a, const RunLog& b, int64_t from, int64_t to) {
  double most = 0;
  for (int64_t step = from; step <= to; ++step) {
    most = std::max(most, std::abs(a.loss(step) - b.loss(step)));
  }
  return most;
}

std::string weights_at(const fs::path& run, int64_t step) {
  return read_text(checkpoint_folder(run, step) / "model.safetensors");
}

/// Ends within this time, far below the time-out of 600 s: a dead process is noticed at once.
constexpr double kSoon = 30;

}  // namespace

TEST_CASE("1, 2, 3 and 4 processes have equal losses over 100 steps", "[cli][distributed]") {
  const Workspace workspace;
  const std::string options = "--set train.steps=100 --run-dir ";
  workspace.require("train --config tiny.json " + options + "run1");
  const RunLog alone = read_metrics(workspace / "run1");
  for (const int n : {2, 3, 4}) {
    const std::string run = "run" + std::to_string(n);
    const auto result = workspace.require(launch(n, options + run));
    const RunLog log = read_metrics(workspace / run);
    INFO(n << " processes\n" << result.err);
    REQUIRE(log.steps.size() == 100);
    CHECK(largest_loss_difference(log, alone, 1, 100) < 1e-5);
    CHECK(log.steps.at(100).at("tokens") == alone.steps.at(100).at("tokens"));
    // Only rank 0 speaks.
    CHECK(result.err.find("step 100/100") == result.err.rfind("step 100/100"));
    CHECK(result.err.find(std::to_string(n) + " over Gloo") != std::string::npos);
  }
}

TEST_CASE("accumulation on two processes is accumulation on one", "[cli][distributed]") {
  const Workspace workspace;
  workspace.require(
      "train --config tiny.json --set train.steps=20 --set train.batch_size=2 "
      "--set train.accumulation=8 --run-dir one");
  workspace.require(launch(2,
                           "--set train.steps=20 --set train.batch_size=4 "
                           "--set train.accumulation=4 --run-dir two"));
  CHECK(largest_loss_difference(
            read_metrics(workspace / "one"), read_metrics(workspace / "two"), 1, 20) < 1e-5);
}

TEST_CASE("fp16 and its loss scale on several processes are those of one", "[cli][distributed]") {
  const Workspace workspace;
  const std::string options = "--set train.steps=20 --set train.precision=fp16 ";
  workspace.require("train --config tiny.json " + options + "--run-dir one");
  const RunLog one = read_metrics(workspace / "one");
  for (const std::string shard : {"none", "optimizer", "full"}) {
    INFO(shard);
    workspace.require(launch(2,
                             options + "--set distributed.shard=" + shard +
                                 " --set train.activation_checkpointing=true --run-dir " + shard));
    const RunLog two = read_metrics(workspace / shard);
    CHECK(largest_loss_difference(one, two, 1, 20) < 2e-3);
    // AdamW divides any scale away again; the norm, and clipping by it, must be without it.
    for (int64_t step = 1; step <= 20; ++step) {
      CHECK(two.steps.at(step).at("grad_norm").get<double>() ==
            Approx(one.steps.at(step).at("grad_norm").get<double>()).epsilon(0.02));
    }
  }
}

TEST_CASE("a recorded step is for one process", "[cli][distributed]") {
  const Workspace workspace;
  CHECK_THAT(refused(workspace.tril(launch(2, "--set train.cuda_graph=true --run-dir two")), 2),
             ContainsSubstring("train.cuda_graph is for one process"));
}

TEST_CASE("a shared-out optimizer trains as a copied one", "[cli][distributed]") {
  const Workspace workspace;
  for (const std::string name : {"adamw", "muon"}) {
    // In bfloat16 Muon's iteration would turn a last bit into 0.4 %, which grows step by step.
    const std::string options =
        "--set train.steps=100 --set optimizer.matrix_precision=fp32 "
        "--set optimizer.name=" +
        name + " ";
    workspace.require("train --config tiny.json " + options + "--run-dir alone_" + name);
    workspace.require(launch(3, options + "--run-dir copied_" + name));
    workspace.require(
        launch(3, options + "--set distributed.shard=optimizer --run-dir shared_" + name));
    INFO(name);
    const RunLog copied = read_metrics(workspace / ("copied_" + name));
    const RunLog alone = read_metrics(workspace / ("alone_" + name));
    CHECK(largest_loss_difference(copied, alone, 1, 100) < 1e-5);
    CHECK(largest_loss_difference(read_metrics(workspace / ("shared_" + name)), copied, 1, 100) <
          1e-6);
  }
  const std::string full =
      "--set distributed.shard=full --set train.activation_checkpointing=true ";
  const std::string unclipped = "--set train.steps=20 --set optimizer.grad_clip=0 --run-dir ";
  workspace.require(launch(2, unclipped + "copied"));
  workspace.require(launch(2, "--set distributed.shard=optimizer " + unclipped + "shared"));
  workspace.require(launch(2, full + unclipped + "full"));
  CHECK(weights_at(workspace / "copied", 20) == weights_at(workspace / "shared", 20));
  CHECK(weights_at(workspace / "copied", 20) == weights_at(workspace / "full", 20));
}

TEST_CASE("a run of two processes goes on with one, two, three or four", "[cli][distributed]") {
  const Workspace workspace;
  for (const std::string shard : {"none", "optimizer", "full"}) {
    const std::string options = "--set distributed.shard=" + shard +
                                " --set train.activation_checkpointing=true "
                                "--set model.n_blocks=3 --set train.eval_interval=15 "
                                "--set schedule.name=constant " +
                                // With "full" embeddings and head of several pieces.
                                (shard == "full" ? "--set model.vocab_multiple=1000 " : "");
    workspace.require(launch(2, options + "--set train.steps=40 --run-dir straight_" + shard));
    const RunLog straight = read_metrics(workspace / ("straight_" + shard));
    const std::string base = "base_" + shard;
    workspace.require(launch(2, options + "--set train.steps=20 --run-dir " + base));
    for (const int n : {1, 2, 3, 4}) {
      const std::string run = "run_" + shard + std::to_string(n);
      fs::copy(workspace / base, workspace / run, fs::copy_options::recursive);
      const std::string resume = options + "--set train.steps=40 --resume --run-dir " + run;
      workspace.require(n == 1 ? "train --config tiny.json " + resume : launch(n, resume));
      INFO(shard << ", " << n << " processes");
      CHECK(largest_loss_difference(read_metrics(workspace / run), straight, 21, 40) < 1e-6);
      if (n == 2) {
        CHECK(weights_at(workspace / run, 40) == weights_at(workspace / ("straight_" + shard), 40));
      }
    }
  }
}

TEST_CASE("a signal to any process stops all at one step with one save", "[cli][distributed]") {
  const Workspace workspace;
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    const std::string run = "run" + std::to_string(rank);
    const auto launcher = workspace.start(launch(3, "--set train.steps=1000000 --run-dir " + run));
    REQUIRE(launcher->wait_for_err(" 10/1000000"));
    const auto children = children_of(launcher->pid());
    REQUIRE(children.size() == 3);
    kill(children[rank], SIGTERM);
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.exit_code == 143);
    CHECK(result.err.find("stopped by signal 15") != std::string::npos);
    CHECK(result.err.find("error") == std::string::npos);
    workspace.require("checkpoint verify " + run);
    // It goes on where it was.
    const int64_t step = read_metrics(workspace / run).steps.rbegin()->first;
    CHECK(fs::exists(checkpoint_folder(workspace / run, step)));
    workspace.require(
        launch(2, "--resume --set train.steps=" + std::to_string(step + 3) + " --run-dir " + run));
  }
}

TEST_CASE("after a signal no process ends before the first has saved", "[cli][distributed]") {
  const Workspace workspace;
  // 8 M weights: saving takes a while.
  const auto launcher = workspace.start(
      launch(2,
             "--set train.steps=1000000 --set model.n_embed=128 --set model.vocab_multiple=65536 "
             "--set checkpoint.interval=1000000 --run-dir run"));
  REQUIRE(launcher->wait_for_err(" 3/1000000"));
  const auto children = children_of(launcher->pid());
  REQUIRE(children.size() == 2);
  kill(children[1], SIGTERM);
  while (kill(children[1], 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Complete checkpoints, and no others, have such a name.
  int n_saved = 0;
  if (fs::exists(workspace / "run" / "checkpoints")) {
    for (const auto& entry : fs::directory_iterator(workspace / "run" / "checkpoints")) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step_") && name.size() == std::string("step_00000000").size())
        ++n_saved;
    }
  }
  CHECK(n_saved == 1);
  CHECK(launcher->wait().exit_code == 143);
}

TEST_CASE("a signal to the launcher stops all with one save", "[cli][distributed]") {
  const Workspace workspace;
  const auto launcher = workspace.start(launch(2, "--set train.steps=1000000 --run-dir run"));
  REQUIRE(launcher->wait_for_err(" 10/1000000"));
  launcher->send(SIGINT);
  const auto result = launcher->wait();
  INFO(result.err);
  CHECK(result.exit_code == 130);
  CHECK(result.err.find("stopped by signal 2") != std::string::npos);
  workspace.require("checkpoint verify run");
}

TEST_CASE("when a process dies the others end soon, and the run goes on as if it had not",
          "[cli][distributed]") {
  const Workspace workspace;
  const std::string options = "--set train.steps=300 --set checkpoint.interval=20 --run-dir ";
  workspace.require(launch(3, options + "straight"));
  for (const size_t rank : {size_t{0}, size_t{1}}) {
    const std::string run = "run" + std::to_string(rank);
    const auto launcher = workspace.start(launch(3, options + run));
    REQUIRE(launcher->wait_for_err("step  50/300"));
    const auto children = children_of(launcher->pid());
    REQUIRE(children.size() == 3);
    const auto killed_at = std::chrono::steady_clock::now();
    kill(children[rank], SIGKILL);
    const auto result = launcher->wait();
    INFO(result.err);
    CHECK(result.exit_code == 7);
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed_at).count() <
          kSoon);
    CHECK(result.err.find("process " + std::to_string(rank)) != std::string::npos);
    CHECK(result.err.find("ended by signal 9") != std::string::npos);
    CHECK(result.err.find("bug in tril") == std::string::npos);
    CHECK(result.err.find("frame #") == std::string::npos);
    for (const pid_t child : children) CHECK(kill(child, 0) != 0);
    workspace.require(launch(3, options + run + " --resume=auto"));
    CHECK(weights_at(workspace / run, 300) == weights_at(workspace / "straight", 300));
  }
}

TEST_CASE("several processes prepare the files that one prepares", "[cli][distributed]") {
  const Workspace workspace;
  // Some blocks of 256 KiB each, with line ends to count, and documents that lie in two of them.
  const std::string line = text_of_kinds(60, 3000) + "\r\n";
  write_text(workspace / "long.txt", repeat(line, 1500));
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    std::string text = small_text(300 + i % 7);
    std::replace(text.begin(), text.end(), '\n', ' ');
    lines += R"({"text": ")" + text + "\"}\n";
  }
  write_text(workspace / "lines.jsonl", lines);
  for (const std::string options : {"long.txt --tokenizer byte",
                                    "long.txt --tokenizer char --normalize-newlines",
                                    "lines.jsonl --tokenizer char --shard-tokens 400000"}) {
    INFO(options);
    const auto alone = workspace.require("prepare " + options + " --out one");
    const auto names = names_in(workspace / "one");
    REQUIRE(names.size() >= 3);
    for (const int n : {2, 3}) {
      // At "debug" the others would be heard, too, if they had something to say.
      const auto result = workspace.require("launch --nproc " + std::to_string(n) + " -- prepare " +
                                            options + " --out several --log-level debug");
      CHECK(names_in(workspace / "several") == names);
      for (const std::string& name : names) {
        INFO(n << " processes, " << name);
        CHECK(read_text(workspace / "several" / name) == read_text(workspace / "one" / name));
      }
      // Only rank 0 speaks: the same report.
      const auto counts = [](const std::string& err) {
        const std::string report = last_line(err);
        return report.substr(report.find(": "), report.rfind(" MB in ") - report.find(": "));
      };
      CHECK(counts(result.err) == counts(alone.err));
      CHECK(result.err.find(" training tokens") == result.err.rfind(" training tokens"));
      fs::remove_all(workspace / "several");
    }
    fs::remove_all(workspace / "one");
  }
}

TEST_CASE("what is wrong in a text is said once, whoever has found it", "[cli][distributed]") {
  const Workspace workspace;
  const std::string good = text_of_kinds(60, (3 << 20) / 2);
  write_text(workspace / "text.txt", good);
  workspace.require("prepare text.txt --tokenizer char --out known");
  // In the sixth block of 256 KiB: with two processes rank 1's.
  write_text(workspace / "bad.txt", good.substr(0, 1400000) + "\x01" + good.substr(1400000));
  const std::string bad = "prepare bad.txt --tokenizer known/tokenizer.json --out out";
  const auto alone = workspace.tril(bad);
  const auto together = workspace.tril("launch --nproc 2 -- " + bad);
  CHECK(refused(together, 3) == refused(alone, 3));
  CHECK_FALSE(fs::exists(workspace / "out"));
  const auto missing =
      workspace.tril("launch --nproc 3 -- prepare nothing.txt --tokenizer byte --out out");
  CHECK_THAT(refused(missing, 3), ContainsSubstring("nothing.txt"));
  CHECK(missing.err.find("error: ") == missing.err.rfind("error: "));
  CHECK(missing.wall_seconds < kSoon);
}

TEST_CASE("what is wrong for all processes is said once", "[cli][distributed]") {
  const Workspace workspace;
  const auto said_once = [&](const std::string& line, int exit_code, const std::string& text) {
    const auto result = workspace.tril(line);
    INFO(result.err);
    CHECK(result.exit_code == exit_code);
    const auto first = result.err.find("error: ");
    REQUIRE(first != std::string::npos);
    CHECK(result.err.rfind("error: ") == first);
    CHECK(result.err.find(text) != std::string::npos);
    CHECK(result.wall_seconds < kSoon);
  };
  said_once(launch(3, "--set train.setps=3 --run-dir run"), 2, "train.steps");
  said_once(launch(3, "--set data.train=nothing.txt --run-dir run"), 3, "nothing.txt");
  said_once(launch(5, "--run-dir run"), 2, "train.batch_size is 4");
  said_once(launch(2, "--set distributed.shard=full --run-dir run"), 2, "activation_checkpointing");
  workspace.require(launch(2, "--run-dir run"));
  said_once(launch(2, "--run-dir run"), 2, "already holds a run");
  said_once("launch --nproc 2 -- generate run", 2, "tril train");
  said_once(launch(2, "--set optimizer.learning_rate=1e30 --run-dir diverged"), 5, "not finite");
}

TEST_CASE("a process that is alone gives up when the others do not come", "[cli][distributed]") {
  const Workspace workspace;
  ProcessOptions options;
  options.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  CHECK(refused(workspace.tril("train --config tiny.json", {}, options), 2).find("MASTER_ADDR") !=
        std::string::npos);
  CHECK(refused(workspace.tril("train --config tiny.json --rank 1"), 2).find("--master") !=
        std::string::npos);
}

TEST_CASE("evaluations, samples and dropout work on several processes", "[cli][distributed]") {
  const Workspace workspace;
  const std::string options =
      "--set train.eval_interval=5 --set train.sample_interval=5 --set train.sample_tokens=20 "
      "--set distributed.check_interval=3 --run-dir ";
  workspace.require("train --config tiny.json " + options + "one");
  workspace.require(launch(3, options + "three"));
  const auto one = read_metrics(workspace / "one").validation_losses;
  const auto three = read_metrics(workspace / "three").validation_losses;
  REQUIRE(one.size() == 2);
  REQUIRE(three.size() == 2);
  for (const auto& [step, loss] : one) CHECK(std::abs(three.at(step) - loss) < 1e-5);
  workspace.require(launch(2, "--set model.dropout=0.2 --run-dir dropout"));
  workspace.require(launch(2, "--set model.dropout=0.2 --run-dir again"));
  CHECK(weights_at(workspace / "dropout", 10) == weights_at(workspace / "again", 10));
}

TEST_CASE("gradients in bfloat16 train nearly as well, and go on bit for bit",
          "[cli][distributed]") {
  const Workspace workspace;
  const std::string constant = "--set schedule.name=constant ";
  const std::string options =
      constant + "--set distributed.reduce_precision=bf16 --set train.steps=";
  workspace.require(launch(2, constant + "--set train.steps=20 --run-dir exact"));
  workspace.require(launch(2, options + "20 --run-dir straight"));
  workspace.require(launch(2, options + "10 --run-dir run"));
  workspace.require(launch(2, options + "20 --run-dir run --resume"));
  const double difference = largest_loss_difference(
      read_metrics(workspace / "exact"), read_metrics(workspace / "straight"), 1, 20);
  CHECK(difference > 0);
  CHECK(difference < 0.01);
  CHECK(weights_at(workspace / "run", 20) == weights_at(workspace / "straight", 20));
}
