// The real program: every command, every exit code, what goes where.

#include <fcntl.h>

#include <cmath>
#include <csignal>
#include <set>

#include "cli/workspace.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// The names below "Subcommands:" of a help text.
std::vector<std::string> subcommands(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help.substr(std::min(help.find("Subcommands:"), help.size())));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) {
    if (line.size() > 2 && line[2] != ' ') {
      names.push_back(split_words(line).front());
    }
  }
  return names;
}

void check_help(const Workspace& workspace, const std::string& command, bool needs_examples) {
  const auto help = workspace.tril(command + " --help");
  INFO(help.command << "\n" << help.out << help.err);
  CHECK(help.exit_code == 0);
  CHECK(help.err.empty());
  CHECK_THAT(help.out, ContainsSubstring("Usage:"));
  if (needs_examples)
    CHECK_THAT(help.out, ContainsSubstring("Example") && ContainsSubstring("  tril "));
  for (const auto& name : subcommands(help.out)) check_help(workspace, command + " " + name, false);
}

bool is_readable_by_anyone(const fs::path& path) {
  return access(path.c_str(), R_OK) == 0;  // root reads everything
}

}  // namespace

TEST_CASE("every command explains itself and gives examples", "[cli]") {
  const Workspace workspace;
  const auto top = workspace.tril("--help");
  CHECK(top.exit_code == 0);
  CHECK(top.err.empty());
  CHECK_THAT(top.out, ContainsSubstring("tril train --config configs/quickstart.json"));

  const auto commands = subcommands(top.out);
  const std::set<std::string> names(commands.begin(), commands.end());
  for (const char* name : {"train",
                           "generate",
                           "evaluate",
                           "prepare",
                           "tokenizer",
                           "inspect",
                           "checkpoint",
                           "config",
                           "corpus",
                           "doctor"}) {
    INFO(name);
    CHECK(names.contains(name));
  }
  for (const auto& name : commands) check_help(workspace, name, true);
}

TEST_CASE("threads that wait go to sleep soon, unless the environment says otherwise", "[cli]") {
  const Workspace workspace;
  const auto openmp_says = [&](std::map<std::string, std::optional<std::string>> environment) {
    environment["OMP_DISPLAY_ENV"] = "verbose";
    environment.try_emplace("GOMP_SPINCOUNT", std::nullopt);
    environment.try_emplace("OMP_WAIT_POLICY", std::nullopt);
    ProcessOptions with;
    with.environment = std::move(environment);
    const auto result = workspace.tril("doctor", {}, with);
    CHECK(result.exit_code == 0);
    return result.err;
  };
  CHECK_THAT(openmp_says({}), ContainsSubstring("GOMP_SPINCOUNT = '3000'"));
  CHECK_THAT(openmp_says({{"GOMP_SPINCOUNT", "70"}}), ContainsSubstring("GOMP_SPINCOUNT = '70'"));
  CHECK_THAT(openmp_says({{"OMP_WAIT_POLICY", "ACTIVE"}}),
             !ContainsSubstring("GOMP_SPINCOUNT = '3000'"));
}

TEST_CASE("the version names tril and LibTorch", "[cli]") {
  const auto version = Workspace().tril("--version");
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, ContainsSubstring("tril ") && ContainsSubstring("LibTorch 2."));
}

TEST_CASE("commands without tensors do not load LibTorch", "[cli]") {
  const Workspace workspace;
  // The loader says which libraries a program needs, and does not run it.
  const auto libraries = [&](const char* name) {
    return workspace.bash("LD_TRACE_LOADED_OBJECTS=1 \"$(dirname \"$0\")/" + std::string(name) +
                          "\"");
  };
  CHECK_THAT(libraries("tril").out, !ContainsSubstring("libtorch"));
  CHECK_THAT(libraries("tril-tensors").out, ContainsSubstring("libtorch"));

  // Alone, without the other program: such a command works, another says what is missing.
  const auto alone = workspace.bash(
      "cp \"$0\" alone && ./alone corpus tales --bytes 2000 --out tales.txt && "
      "./alone prepare tales.txt --out prepared && ./alone train --config tiny.json");
  CHECK(alone.exit_code == 2);
  CHECK(fs::exists(workspace / "prepared" / "train.tokens"));
  CHECK_THAT(alone.err, ContainsSubstring("tril-tensors cannot be started: No such file"));
}

TEST_CASE("doctor says which device and how many threads", "[cli]") {
  const Workspace workspace;
  const auto json = workspace.json("doctor --json --threads 1");
  CHECK(json.at("threads") == 1);
  CHECK(json.at("cache_folder") == test_cache().string());
  CHECK(json.at("memory_available_bytes").get<int64_t>() > 0);
  for (const char* key : {"version", "build", "cpu_capability", "cuda", "device"}) {
    CHECK(json.contains(key));
  }
  CHECK(workspace.tril("doctor").exit_code == 0);
}

TEST_CASE("a wrong command line is exit code 2 and names what is wrong", "[cli]") {
  const Workspace workspace;
  refused(workspace.tril(""), 2);
  CHECK_THAT(refused(workspace.tril("tarin"), 2), ContainsSubstring("tarin"));
  CHECK_THAT(refused(workspace.tril("generate"), 2), ContainsSubstring("RUN"));
  CHECK_THAT(refused(workspace.tril("train --bogus"), 2), ContainsSubstring("--bogus"));
  CHECK_THAT(refused(workspace.tril("train"), 2), ContainsSubstring("--config FILE"));
  CHECK_THAT(refused(workspace.tril("doctor --log-level loud"), 2), ContainsSubstring("loud"));
  CHECK_THAT(refused(workspace.tril("train --config tiny.json --set train.steps"), 2),
             ContainsSubstring("KEY=VALUE"));
  CHECK_THAT(refused(workspace.tril("prepare text.txt"), 2), ContainsSubstring("--out"));
  CHECK_THAT(refused(workspace.tril("tokenizer info --tokenizer char"), 2),
             ContainsSubstring("tokenizer.json"));
  CHECK(names_in(workspace / "") == std::vector<std::string>{"text.txt", "tiny.json"});
}

TEST_CASE("text goes through prepare, train, resume, generate and evaluate", "[cli]") {
  const Workspace workspace;
  workspace.require("prepare text.txt --tokenizer char --out data --validation-fraction 0.2");
  CHECK(names_in(workspace / "data") ==
        std::vector<std::string>{"tokenizer.json", "train.tokens", "validation.tokens"});
  const auto summary = workspace.json("prepare --describe data/train.tokens --json");
  CHECK(summary.at("vocab_size") == 13);
  CHECK(summary.at("bytes_per_id") == 2);

  const std::string train =
      "train --config tiny.json --run-dir run --set data.train=data/train.tokens "
      "--set data.validation=data/validation.tokens";
  workspace.require(train);
  CHECK(read_metrics(workspace / "run").steps.size() == 10);
  workspace.require("train --run-dir run --resume --set train.steps=15");
  const RunLog log = read_metrics(workspace / "run");
  CHECK(log.steps.size() == 15);
  CHECK(log.loss(15) < log.loss(1));
  CHECK(names_in(workspace / "run") ==
        std::vector<std::string>{
            "checkpoints", "config.json", "lock", "metrics.jsonl", "tokenizer.json", "train.log"});

  const auto generated =
      workspace.json("generate run --prompt cat --max-new-tokens 30 --samples 2 --json");
  REQUIRE(generated.at("samples").size() == 2);
  for (const auto& sample : generated.at("samples")) {
    CHECK(sample.size() == 3);
    CHECK(sample.at("ids").size() == 30);
    CHECK(sample.at("text").get<std::string>().size() == 30);  // one byte per character here
    CHECK(sample.at("stop_reason") == "length");
  }
  CHECK(generated.at("samples")[0] != generated.at("samples")[1]);

  const auto evaluated = workspace.json("evaluate run --json");
  CHECK(evaluated.size() == 8);
  CHECK(evaluated.at("loss_standard_error").get<double>() > 0);
  CHECK(evaluated.at("tokens").get<int64_t>() ==
        static_cast<int64_t>(small_text().size()) - summary.at("tokens").get<int64_t>() - 1);
  CHECK(evaluated.at("bytes") == evaluated.at("tokens"));
  CHECK(evaluated.at("step") == 15);
  CHECK(fs::equivalent(workspace / evaluated.at("checkpoint"),
                       checkpoint_folder(workspace / "run", 15)));
  const auto loss = evaluated.at("loss").get<double>();
  CHECK(loss == Approx(log.validation_losses.at(15)).epsilon(1e-6));
  CHECK(evaluated.at("perplexity").get<double>() == Approx(std::exp(loss)));
  CHECK(evaluated.at("bits_per_byte").get<double>() == Approx(loss / std::log(2.0)));

  // Another text, and a checkpoint by its own folder.
  const auto other =
      workspace.json("evaluate run/checkpoints/step_00000010 --data text.txt --json");
  CHECK(other.at("step") == 10);
  CHECK(other.at("tokens").get<size_t>() == small_text().size() - 1);
}

TEST_CASE("the tokenizer command turns text into ids and back", "[cli]") {
  const Workspace workspace;
  const auto encoded =
      workspace.json("tokenizer encode --tokenizer byte --json -", {}, {.input = "hi\xff"});
  CHECK(encoded == tril::Json{{"ids", {104, 105, 255}}});
  CHECK(workspace.tril("tokenizer encode --tokenizer byte -", {}, {.input = "hi"}).out ==
        "104 105\n");
  CHECK(workspace.tril("tokenizer decode --tokenizer byte -", {}, {.input = "104, 105 255"}).out ==
        "hi\xff");
  CHECK(workspace.tril("tokenizer decode --tokenizer byte -", {}, {.input = encoded.dump()}).out ==
        "hi\xff");
  CHECK(workspace.json("tokenizer info --tokenizer byte --json").at("vocab_size") == 256);
  CHECK_THAT(
      refused(workspace.tril("tokenizer decode --tokenizer byte -", {}, {.input = "7 x9"}), 3),
      ContainsSubstring("x9"));
  CHECK_THAT(
      refused(workspace.tril("tokenizer decode --tokenizer byte -", {}, {.input = "256"}), 3),
      ContainsSubstring("256"));
}

TEST_CASE("the tales come with their exact floor, and evaluate shows it", "[cli]") {
  const Workspace workspace;
  const std::string config = (kProject / "configs" / "smoke.json").string();
  workspace.require(
      "train --run-dir run --set train.steps=2 --set data.tales_bytes=20000 --set "
      "train.sample_interval=0 --config",
      {config});
  const auto text = workspace.require("evaluate run");
  CHECK_THAT(text.out, ContainsSubstring("floor") && ContainsSubstring("perplexity"));

  workspace.require("corpus tales --bytes 5000 --seed 3 --out a.txt");
  workspace.require("corpus tales --bytes 5000 --seed 3 --out b.txt");
  workspace.require("corpus tales --bytes 5000 --seed 4 --out c.txt");
  CHECK(read_text(workspace / "a.txt") == read_text(workspace / "b.txt"));
  CHECK(read_text(workspace / "a.txt") != read_text(workspace / "c.txt"));
  CHECK(read_text(workspace / "a.txt").size() >= 5000);
  CHECK(fs::exists(workspace / "a.txt.marks"));
}

TEST_CASE("a dry run prints the plan, trains nothing and creates nothing", "[cli]") {
  const Workspace workspace;
  const auto plan = workspace.require(
      "train --config tiny.json --run-dir run --dry-run --set train.batch_size=8");
  CHECK_THAT(plan.out, ContainsSubstring("\"batch_size\": 8"));
  CHECK_THAT(plan.out, ContainsSubstring("parameters           3328"));  // counted in config_test
  CHECK_THAT(plan.out, ContainsSubstring("tokens per step      128"));
  CHECK_THAT(plan.out, ContainsSubstring("ln 13"));
  CHECK_THAT(plan.out, ContainsSubstring("estimated peak"));
  CHECK(plan.out.find("step 1/") == std::string::npos);
  CHECK(names_in(workspace / "") == std::vector<std::string>{"text.txt", "tiny.json"});
}

TEST_CASE("every shipped config is valid", "[cli]") {
  const Workspace workspace;
  int n_configs = 0;
  for (const auto& entry : fs::directory_iterator(kProject / "configs")) {
    if (entry.path().extension() != ".json") continue;
    ++n_configs;
    const auto result = workspace.tril("config check", {entry.path().string()});
    INFO(result.command << "\n" << result.err);
    CHECK(result.exit_code == 0);
  }
  CHECK(n_configs >= 9);
}

TEST_CASE("the page of config keys is what config describe writes", "[cli]") {
  const auto described = Workspace().require("config describe");
  const std::string page = read_text(kProject / "configs" / "README.md");
  INFO("write it anew: build/release/tril config describe > configs/README.md");
  CHECK(first_difference(page, described.out) == -1);
}

TEST_CASE("config show gives every key, and reads its own output", "[cli]") {
  const Workspace workspace;
  const auto shown = workspace.require("config show tiny.json --set train.batch_size=5");
  const auto json = tril::Json::parse(shown.out);
  CHECK(json.at("train").at("batch_size") == 5);
  CHECK(json.at("data").at("train") == fs::canonical(workspace / "text.txt").string());
  write_text(workspace / "shown.json", shown.out);
  CHECK(workspace.require("config show shown.json").out == shown.out);
}

TEST_CASE("a shipped config whose text is not there names the script that brings it", "[cli]") {
  const Workspace workspace;
  fs::copy(kProject / "configs", workspace / "configs");
  const auto message =
      refused(workspace.tril("train --config configs/shakespeare_char_cpu.json --run-dir run"), 3);
  CHECK_THAT(message, ContainsSubstring("scripts/fetch_tinyshakespeare.sh"));
  CHECK_FALSE(fs::exists(workspace / "run"));
}

TEST_CASE("a folder with a run is not written to unless asked", "[cli]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");

  // Refused before any data is looked for.
  const auto message = refused(
      workspace.tril("train --config tiny.json --run-dir run --set data.train=missing.txt"), 2);
  CHECK_THAT(message, ContainsSubstring("--resume") && ContainsSubstring("--overwrite"));
  CHECK(read_metrics(workspace / "run").steps.size() == 10);

  CHECK_THAT(
      refused(workspace.tril("train --config tiny.json --run-dir run --resume --overwrite"), 2),
      ContainsSubstring("contradict"));

  workspace.require(
      "train --config tiny.json --run-dir run --overwrite --set train.steps=5 --set seed=2");
  CHECK(names_in(workspace / "run/checkpoints") == std::vector<std::string>{"step_00000005"});
  CHECK(read_metrics(workspace / "run").steps.size() == 5);
}

TEST_CASE("resume needs a checkpoint, and auto starts without one", "[cli]") {
  const Workspace workspace;
  CHECK_THAT(refused(workspace.tril("train --config tiny.json --run-dir run --resume"), 4),
             ContainsSubstring("no complete checkpoint") && ContainsSubstring("--resume=auto"));
  refused(workspace.tril("train --run-dir run --resume"), 4);
  refused(workspace.tril("train --run-dir run --resume=auto"), 2);  // a new run needs a config
  refused(workspace.tril("train --resume"), 2);
  CHECK_FALSE(fs::exists(workspace / "run"));

  const std::string automatic = "train --config tiny.json --run-dir run --resume=auto";
  workspace.require(automatic + " --set train.steps=5");
  const auto second = workspace.require(automatic);
  CHECK_THAT(second.err, ContainsSubstring("resuming from"));
  CHECK(read_metrics(workspace / "run").steps.size() == 10);
  workspace.require(automatic);  // nothing left to do is no error
  CHECK(read_metrics(workspace / "run").steps.size() == 10);

  // An older checkpoint begins a branch, in a folder of its own.
  CHECK_THAT(refused(workspace.tril("train --config tiny.json --run-dir run --resume=5"), 2),
             ContainsSubstring("newer checkpoint (step 10)"));
  CHECK_THAT(refused(workspace.tril("train --run-dir run --resume=7"), 4),
             ContainsSubstring("5, 10"));
  refused(workspace.tril("train --run-dir run --resume=soon"), 2);
  CHECK(read_metrics(workspace / "run").steps.size() == 10);
  workspace.require(
      "train --config tiny.json --run-dir branch --resume=run/checkpoints/step_00000005");
  CHECK(read_metrics(workspace / "branch").steps.begin()->first == 6);
  const std::string weights = "model.safetensors";
  CHECK(read_text(checkpoint_folder(workspace / "branch", 10) / weights) ==
        read_text(checkpoint_folder(workspace / "run", 10) / weights));
}

TEST_CASE("generated text goes to stdout and all else to stderr", "[cli]") {
  const Workspace workspace;
  const auto trained = workspace.require("train --config tiny.json --run-dir run");
  CHECK(trained.out.empty());
  CHECK_THAT(trained.err,
             ContainsSubstring("step 10/10") && ContainsSubstring("expected first loss 2.565"));

  const std::string line = "generate run --prompt the --max-new-tokens 20 --seed 3";
  const auto text = workspace.require(line);
  const auto json = workspace.json(line + " --json");
  CHECK(text.out == "the" + json.at("samples")[0].at("text").get<std::string>() + "\n");
  CHECK(text.err.empty());
  CHECK(workspace.require(line).out == text.out);  // the same seed
  CHECK(workspace.require("generate run --prompt the --max-new-tokens 20 --seed 4").out !=
        text.out);

  const auto quiet = workspace.require("train --config tiny.json --run-dir quiet --quiet");
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
  CHECK(read_metrics(workspace / "quiet").steps.size() == 10);
  CHECK_THAT(refused(workspace.tril("generate missing --quiet"), 4), ContainsSubstring("missing"));
}

TEST_CASE("a closed or full output is no crash", "[cli]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  if (access("/dev/full", W_OK) != 0) TRIL_SKIP("there is no /dev/full");
  for (const char* command :
       {"generate run", "evaluate run --json", "config describe", "checkpoint show run"}) {
    const auto full = workspace.bash(std::string("\"$0\" ") + command + " > /dev/full");
    INFO(command << "\n" << full.err);
    CHECK(full.exit_code == 6);  // what was asked for is lost
    CHECK(full.err.find("bug") == std::string::npos);
    const auto gone =
        workspace.bash(std::string("\"$0\" ") + command + " | exec 0<&-; exit ${PIPESTATUS[0]}");
    INFO(gone.err);
    CHECK(gone.exit_code == 0);  // the reader has seen all it wanted
    CHECK(gone.err.empty());
  }
}

TEST_CASE("missing paths and folders are named", "[cli]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run --set train.steps=1");
  fs::create_directory(workspace / "folder");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"generate", "missing"},
      {"generate", "folder"},
      {"generate", "text.txt"},
      {"evaluate", "missing"},
      {"checkpoint show", "folder"},
      {"checkpoint verify", "missing"},
      {"checkpoint list", "missing"},
      {"train --resume --run-dir", "folder"},
      {"train --resume --run-dir", "text.txt"}};
  for (const auto& [command, path] : cases) {
    const auto message = refused(workspace.tril(command + " " + path), 4);
    INFO(command << " " << path << ": " << message);
    CHECK_THAT(message, ContainsSubstring(path));
  }
  CHECK_THAT(refused(workspace.tril("evaluate run --data missing.txt"), 3),
             ContainsSubstring("missing.txt"));
  CHECK_THAT(refused(workspace.tril("evaluate run --data folder"), 3), ContainsSubstring("folder"));
  CHECK_THAT(refused(workspace.tril("generate run --prompt-file missing.txt"), 3),
             ContainsSubstring("missing.txt"));
  CHECK_THAT(refused(workspace.tril("train --config missing.json"), 2),
             ContainsSubstring("missing.json"));
  CHECK_THAT(refused(workspace.tril("train --config folder"), 2), ContainsSubstring("folder"));
  CHECK_THAT(
      refused(workspace.tril("train --config tiny.json --run-dir x --set data.train=missing.txt"),
              3),
      ContainsSubstring("missing.txt"));
  CHECK_THAT(refused(workspace.tril("train --config tiny.json --run-dir text.txt/run"), 2),
             ContainsSubstring("text.txt"));
  CHECK_THAT(refused(workspace.tril("prepare --describe missing.tokens"), 3),
             ContainsSubstring("missing.tokens"));
  CHECK_THAT(refused(workspace.tril("tokenizer info --tokenizer missing.json"), 3),
             ContainsSubstring("missing.json"));
  CHECK_THAT(refused(workspace.tril("generate run --checkpoint 7"), 4),
             ContainsSubstring("there are: 1"));
  CHECK(names_in(workspace / "") ==
        std::vector<std::string>{"folder", "run", "text.txt", "tiny.json"});
  CHECK(names_in(workspace / "folder").empty());
}

TEST_CASE("unreadable files are named", "[cli]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run --set train.steps=1");
  const fs::path weights = checkpoint_folder(workspace / "run", 1) / "model.safetensors";
  fs::permissions(weights, fs::perms::none);
  fs::permissions(workspace / "text.txt", fs::perms::none);
  if (is_readable_by_anyone(weights)) TRIL_SKIP("root reads unreadable files");
  CHECK_THAT(refused(workspace.tril("generate run"), 4), ContainsSubstring("model.safetensors"));
  CHECK_THAT(refused(workspace.tril("train --config tiny.json --run-dir x"), 3),
             ContainsSubstring("text.txt"));
}

TEST_CASE("a run that diverges ends with exit code 5 and names the step", "[cli]") {
  const Workspace workspace;
  const auto result = workspace.tril(
      "train --config tiny.json --run-dir run --set optimizer.learning_rate=1e30 --set "
      "optimizer.grad_clip=0");
  const auto message = refused(result, 5);
  CHECK_THAT(message, ContainsSubstring("step 2") && ContainsSubstring("not finite"));
  CHECK(names_in(workspace / "run/checkpoints").empty());  // a poisoned state is never saved

  // A run that was sound keeps its last checkpoint.
  workspace.require("train --config tiny.json --run-dir sound");
  const fs::path newest = checkpoint_folder(workspace / "sound", 10);
  overwrite_weights(newest, 1e30F, Which::kAll);
  refused(workspace.tril("train --run-dir sound --resume --set train.steps=12"), 5);
  CHECK(names_in(workspace / "sound/checkpoints") ==
        std::vector<std::string>{"step_00000005", "step_00000010"});
}

TEST_CASE("a run that diverged goes on when it may leave bad steps out", "[cli]") {
  const Workspace workspace;
  // 21 bad steps in a row are too many for skip; a rewind needs a checkpoint.
  const std::string train =
      "train --config tiny.json --set optimizer.learning_rate=1e30 --set optimizer.grad_clip=0 "
      "--set train.steps=40 --set checkpoint.interval=0 --run-dir ";
  CHECK_THAT(refused(workspace.tril(train + "stop"), 5), ContainsSubstring("train.on_spike=skip"));
  CHECK_THAT(refused(workspace.tril(train + "skip --set train.on_spike=skip"), 5),
             ContainsSubstring("more than 20 bad steps in a row"));
  CHECK_THAT(refused(workspace.tril(train + "rewind --set train.on_spike=rewind"), 5),
             ContainsSubstring("no checkpoint to go back to"));

  // A rule so strict that many a loss of this text is a spike: left out, said, and no error.
  const std::string strict =
      "train --config tiny.json --set train.steps=150 --set train.spike_z_score=1.5 "
      "--set optimizer.learning_rate=1e-6 --run-dir ";  // the loss stays where it is, but for
                                                        // chance
  CHECK_THAT(refused(workspace.tril(strict + "strict"), 5),
             ContainsSubstring("the loss is a spike"));
  CHECK(workspace.tril("checkpoint verify strict").exit_code == 0);
  const auto skipped =
      workspace.require("train --run-dir strict --resume --set train.on_spike=skip");
  CHECK_THAT(skipped.err,
             ContainsSubstring("changed since the checkpoint: train.on_spike") &&
                 ContainsSubstring("were left out"));
}

TEST_CASE("inspect check passes a sound model with numbers, and fails a broken one", "[cli]") {
  const Workspace workspace;
  workspace.require("train --config tiny.json --run-dir run");
  const auto text = workspace.require("inspect check run");
  for (const char* name : {"causal", "triangle", "rows", "scale", "same input", "fused"}) {
    CHECK_THAT(text.out, ContainsSubstring(std::string("pass  ") + name));
  }
  CHECK_THAT(text.out, ContainsSubstring("skip  floor"));  // this text has no known floor
  const auto json = workspace.json("inspect check run --json --checkpoint 5");
  CHECK(json.at("pass") == true);
  CHECK(json.at("step") == 5);
  CHECK(json.at("checks").size() == 13);
  for (const auto& line : json.at("checks")) {
    INFO(line.dump());
    CHECK((line.at("result") == "pass" || line.at("name") == "floor"));
    CHECK(line.at("value").is_number() == (line.at("result") == "pass"));
  }
  // Without the run's text it works on random tokens.
  fs::remove(workspace / "text.txt");
  const auto without = workspace.require("inspect check run");
  CHECK_THAT(without.err, ContainsSubstring("without the run's data"));

  overwrite_weights(checkpoint_folder(workspace / "run", 10), NAN, Which::kFirst);
  const auto broken = workspace.tril("inspect check run");
  CHECK(broken.exit_code == 4);
  CHECK_THAT(broken.out, ContainsSubstring("FAIL  finite") && ContainsSubstring("pass  width"));
  CHECK_THAT(broken.err, ContainsSubstring("checks failed"));
  workspace.require("inspect check run --checkpoint 5");
}

TEST_CASE("a lack of disk space is exit code 6 and leaves no half files", "[cli]") {
  const Workspace workspace;
  // ulimit counts blocks of 1024 bytes: 8 KB hold the logs, and no checkpoint of this model.
  const auto trained = workspace.bash("ulimit -f 8; \"$0\" train --config tiny.json --run-dir run");
  CHECK_THAT(refused(trained, 6),
             ContainsSubstring("model.safetensors") && ContainsSubstring("file-size limit"));
  CHECK(names_in(workspace / "run/checkpoints").empty());

  const auto prepared = workspace.bash("ulimit -f 2; \"$0\" prepare text.txt --out data");
  CHECK_THAT(refused(prepared, 6), ContainsSubstring("train.tokens"));
  CHECK_FALSE(fs::exists(workspace / "data"));
  const auto corpus =
      workspace.bash("ulimit -f 2; \"$0\" corpus tales --bytes 50000 --out tales.txt");
  CHECK_THAT(refused(corpus, 6), ContainsSubstring("tales.txt"));
  CHECK_FALSE(fs::exists(workspace / "tales.txt"));
}

TEST_CASE("a signal saves and ends with 128 and its number", "[cli]") {
  const Workspace workspace;
  const std::vector<std::pair<int, int>> signals = {{SIGINT, 130}, {SIGTERM, 143}};
  for (const auto& [signal, exit_code] : signals) {
    const std::string name = "run" + std::to_string(signal);
    const auto run = workspace.start(
        "train --config tiny.json --set train.steps=1000000000 --set checkpoint.interval=0 "
        "--run-dir " +
        name);
    REQUIRE(run->wait_for_err("step          3/"));
    run->send(signal);
    const auto result = run->wait();
    INFO(result.err);
    CHECK(result.exit_code == exit_code);
    CHECK_THAT(result.err, ContainsSubstring("saved at step") && ContainsSubstring("--resume"));
    const auto saved = names_in(workspace / (name + "/checkpoints"));
    REQUIRE(saved.size() == 1);
    CHECK(workspace.tril("checkpoint verify " + name).exit_code == 0);
    const RunLog log = read_metrics(workspace / name);
    CHECK(fs::path(saved[0]) == checkpoint_folder("", log.steps.rbegin()->first).filename());
  }
}
