// What has gone wrong for users of such tools: each case with a small input, through the real
// program. Only what the command line can show is here; sums and gradients are tested beside the
// modules they belong to.

#include <cmath>
#include <numeric>
#include <set>

#include "cli/workspace.h"
#include "tril/base/token_file.h"

using namespace tril::testing;
namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

namespace {

/// The text that a token file stands for, through `tril tokenizer decode`.
std::string decoded(const Workspace& workspace,
                    const std::string& folder,
                    const std::string& file) {
  std::string ids;
  for (const int64_t id : all_ids(tril::TokenFile::open(workspace / (folder + "/" + file)))) {
    ids += std::to_string(id) + ' ';
  }
  return workspace
      .tril("tokenizer decode --tokenizer " + folder + "/tokenizer.json -", {}, {.input = ids})
      .out;
}

tril::Json only_sample(const tril::Json& generated) {
  REQUIRE(generated.at("samples").size() == 1);
  return generated.at("samples")[0];
}

std::string utf8(char32_t c) {
  std::string out;
  const auto add = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | (c >> 6));
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | (c >> 12));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18));
    add(0x80 | ((c >> 12) & 0x3F));
    add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  }
  return out;
}

/// Each of the first n code points from U+0020 once, without surrogates.
std::string text_of_code_points(int n) {
  std::string text;
  char32_t c = 0x20;
  for (int i = 0; i < n; ++i, ++c) {
    if (c == 0xD800) c = 0xE000;
    text += utf8(c);
  }
  return text;
}

}  // namespace

TEST_CASE("a text shorter than a window is refused with both numbers", "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "eight.txt", "abcdefgh");
  write_text(workspace / "nine.txt", "abcdefghi");
  const std::string train =
      std::string(kTrain) + "--set model.context_length=8 --set data.validation_fraction=0 ";
  const auto message = refused(workspace.tril(train + "--set data.train=eight.txt"), 3);
  CHECK_THAT(message, ContainsSubstring("training split has 8 tokens, needs 9"));
  CHECK_FALSE(fs::exists(workspace / "run"));
  workspace.require(train + "--set data.train=nine.txt --set train.steps=3");  // one legal window
  CHECK(read_metrics(workspace / "run").steps.size() == 3);
}

TEST_CASE("a validation split too short for a window is refused before the first step",
          "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "short.txt", small_text().substr(0, 100));
  const std::string train =
      std::string(kTrain) +
      "--set data.train=short.txt --set train.steps=4 --set train.eval_interval=2 ";
  CHECK_THAT(refused(workspace.tril(train + "--set data.validation_fraction=0.05"), 3),
             ContainsSubstring("validation split has 5 tokens, needs 17"));
  for (const char* fraction : {"1.0", "-0.1", "1.5"}) {
    CHECK_THAT(refused(workspace.tril(train + "--set data.validation_fraction=" + fraction), 2),
               ContainsSubstring("data.validation_fraction"));
  }
  CHECK_FALSE(fs::exists(workspace / "run"));
  const auto off = workspace.require(train + "--set data.validation_fraction=0");
  CHECK_THAT(off.err, ContainsSubstring("validation off"));
  CHECK(off.err.find("nan") == std::string::npos);
  CHECK(read_metrics(workspace / "run").validation_losses.empty());
  CHECK_THAT(refused(workspace.tril("evaluate run"), 3), ContainsSubstring("--data"));
  CHECK_THAT(refused(workspace.tril("generate run --checkpoint best"), 4),
             ContainsSubstring("never evaluated"));
}

TEST_CASE("prepare refuses what is no text, and leaves nothing", "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "empty.txt", "");
  write_text(workspace / "newline.txt", "\n");
  fs::create_directory(workspace / "folder");
  CHECK_THAT(refused(workspace.tril("prepare empty.txt --out data"), 3),
             ContainsSubstring("empty.txt") && ContainsSubstring("empty"));
  CHECK_THAT(refused(workspace.tril("prepare missing.txt --out data"), 3),
             ContainsSubstring("missing.txt"));
  CHECK_THAT(refused(workspace.tril("prepare folder --out data"), 3), ContainsSubstring("folder"));
  write_text(workspace / "bytes.txt", "ab\xff\xfe");
  CHECK_THAT(refused(workspace.tril("prepare bytes.txt --out data"), 3),
             ContainsSubstring("bytes.txt"));
  CHECK_FALSE(fs::exists(workspace / "data"));
  CHECK_THAT(refused(workspace.tril(std::string(kTrain) + "--set data.train=newline.txt"), 3),
             ContainsSubstring("needs 17"));
  CHECK_FALSE(fs::exists(workspace / "run"));
  workspace.require("prepare bytes.txt --tokenizer byte --out data --validation-fraction 0");
  CHECK_THAT(refused(workspace.tril("prepare text.txt --out data"), 2),
             ContainsSubstring("--overwrite"));
}

TEST_CASE("line ends survive, are reported, and can be made uniform", "[cli][data]") {
  const Workspace workspace;
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"cr", repeat("a\rb\r", 500)},
      {"crlf", repeat("a\r\nb\r\n", 500)},
      {"lf", repeat("a\nb\n", 500)}};
  for (const auto& [name, text] : texts) {
    write_text(workspace / (name + ".txt"), text);
    const auto result =
        workspace.require("prepare --validation-fraction 0 " + name + ".txt --out " + name);
    CHECK(first_difference(decoded(workspace, name, "train.tokens"), text) == -1);
    INFO(result.err);
    CHECK((result.err.find("1000 CR") != std::string::npos) == (name != "lf"));
    if (name == "lf") continue;
    workspace.require("prepare --normalize-newlines --validation-fraction 0 " + name +
                      ".txt --out unix_" + name);
    CHECK(first_difference(decoded(workspace, "unix_" + name, "train.tokens"), texts[2].second) ==
          -1);
  }
  write_text(workspace / "crlf.json", "{\r\n\"seed\": 1\r\n}\r\n");
  CHECK(workspace.tril("config check crlf.json").exit_code == 0);
}

TEST_CASE("the locale changes neither tokens nor generated bytes", "[cli][data]") {
  const Workspace workspace;
  const std::string text = repeat("naïve — 日本語\n", 20);
  write_text(workspace / "utf8.txt", text);
  Strings tokens;
  Strings outputs;
  const std::vector<std::optional<std::string>> locales = {"C", "C.UTF-8", std::nullopt};
  for (size_t i = 0; i < locales.size(); ++i) {
    ProcessOptions with;
    with.environment = {{"LC_ALL", locales[i]}, {"LANG", locales[i]}};
    const std::string n = std::to_string(i);
    REQUIRE(workspace.tril("prepare utf8.txt --validation-fraction 0 --out data" + n, {}, with)
                .exit_code == 0);
    tokens.push_back(read_text(workspace / ("data" + n + "/train.tokens")));
    if (i == 0)
      workspace.require(std::string(kTrain) +
                        "--set data.train=data0/train.tokens --set train.steps=2");
    outputs.push_back(
        workspace.tril("generate run --max-new-tokens 20 --prompt", {"日本"}, with).out);
  }
  CHECK(tril::TokenFile::open(workspace / "data0/train.tokens").header().vocab_size == 11);
  CHECK(decoded(workspace, "data0", "train.tokens") == text);
  CHECK(tokens[1] == tokens[0]);
  CHECK(tokens[2] == tokens[0]);
  CHECK(outputs[0].starts_with("日本"));
  CHECK(outputs[1] == outputs[0]);
  CHECK(outputs[2] == outputs[0]);
}

TEST_CASE("ids take two bytes up to a vocabulary of 65536, then four", "[cli][data]") {
  const Workspace workspace;
  for (const auto& [n, id_bytes] : {std::pair(65536, 2), std::pair(65537, 4)}) {
    const std::string name = std::to_string(n);
    const std::string text = text_of_code_points(n);
    write_text(workspace / (name + ".txt"), text);
    workspace.require("prepare --validation-fraction 0 " + name + ".txt --out " + name);
    const auto summary = workspace.json("prepare --json --describe " + name + "/train.tokens");
    CHECK(summary.at("vocab_size") == n);
    CHECK(summary.at("highest_id") == n - 1);
    CHECK(summary.at("distinct_ids") == n);
    CHECK(summary.at("bytes_per_id") == id_bytes);
    CHECK(first_difference(decoded(workspace, name, "train.tokens"), text) == -1);
  }
}

TEST_CASE("a damaged or foreign token file is refused by name", "[cli][data]") {
  const Workspace workspace;
  workspace.require("prepare text.txt --validation-fraction 0 --out data");
  const std::string good = read_text(workspace / "data/train.tokens");
  const auto with_byte = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> damages = {
      {with_byte(8, 9), "version is 9"},  // offsets: token_file.h
      {with_byte(12, 4), "4 bytes per id"},
      {good.substr(0, good.size() - 1), "cut short"},
      {good.substr(1024), "expected \"TRILTOK"},  // headerless
      {std::string(4, '\0'), "4 bytes"}};
  for (const auto& [bytes, reason] : damages) {
    write_text(workspace / "data/bad.tokens", bytes);
    const auto message =
        refused(workspace.tril(std::string(kTrain) + "--set data.train=data/bad.tokens"), 3);
    CHECK_THAT(message,
               ContainsSubstring("bad.tokens") && ContainsSubstring(reason) &&
                   ContainsSubstring("tril prepare"));
  }
  refused(workspace.tril("prepare --describe data/bad.tokens"), 3);
  CHECK_FALSE(fs::exists(workspace / "run"));
}

TEST_CASE("a model smaller than the vocabulary is refused before the first step", "[cli][data]") {
  const Workspace workspace;
  write_text(workspace / "kinds.txt", text_of_kinds(65, 1000));
  const auto message = refused(
      workspace.tril(std::string(kTrain) + "--set data.train=kinds.txt --set model.vocab_size=50"),
      3);
  CHECK_THAT(message, ContainsSubstring("64 >= model.vocab_size 50"));
  CHECK_FALSE(fs::exists(workspace / "run"));
}

TEST_CASE("tokens of another tokenizer are refused by fingerprint", "[cli][data]") {
  const Workspace workspace;
  // As many kinds of characters, and others.
  std::string other = small_text();
  for (char& c : other) c = c == 'g' ? 'G' : c;
  write_text(workspace / "other.txt", other);
  workspace.require("prepare text.txt --out ours --validation-fraction 0.2");
  workspace.require("prepare other.txt --out theirs --validation-fraction 0.2");
  const std::string train = std::string(kTrain) + "--set data.train=ours/train.tokens ";
  CHECK_THAT(refused(workspace.tril(train + "--set data.validation=theirs/validation.tokens"), 3),
             ContainsSubstring("another tokenizer"));
  CHECK_THAT(refused(workspace.tril(train + "--set data.tokenizer=theirs/tokenizer.json"), 3),
             ContainsSubstring("another tokenizer"));
  CHECK_FALSE(fs::exists(workspace / "run"));
  workspace.require(train + "--set data.validation=ours/validation.tokens");
  CHECK_THAT(refused(workspace.tril("evaluate run --data theirs/train.tokens"), 3),
             ContainsSubstring("another tokenizer"));
  // And a run goes on with its own data only.
  const auto swapped = workspace.tril(
      "train --run-dir run --resume --set train.steps=12 --set data.train=theirs/train.tokens");
  CHECK_THAT(refused(swapped, 3), ContainsSubstring("tokenizer") || ContainsSubstring("data"));
}

TEST_CASE("a misspelt, misplaced or repeated key stops before any data is read", "[cli][config]") {
  const Workspace workspace;
  const std::vector<std::pair<std::string, std::string>> configs = {
      {R"({"optimizer": {"learning_rat": 3e-4}})", "optimizer.learning_rate"},
      {R"({"learning_rate": 3e-4})", "optimizer.learning_rate"},
      {R"({"train": {"Steps": 4}})", "train.steps"},
      {R"({"Train": {"steps": 4}})", "Did you mean \"train\""},
      {R"({"train": {"steps": "4"}})", "train.steps"},
      {R"({"seed": 1, "seed": 2})", "duplicate key \"seed\""},
      {"{\"train\": {\"steps\": 4,}}", "config.json:1:"},
      {"{\n// note\n\"seed\": 1}", "config.json:2:1"},
      {"{\"train\": {", "config.json:1:"},
      {"", "empty"},
      {"[]", "top level must be an object"},
      {"42", "top level must be an object"}};
  for (const auto& [text, expected] : configs) {
    write_text(workspace / "config.json", text);
    const auto message = refused(
        workspace.tril("train --config config.json --run-dir run --set data.train=missing.txt"), 2);
    INFO(text);
    CHECK_THAT(message, ContainsSubstring("config.json") && ContainsSubstring(expected));
  }
  CHECK_FALSE(fs::exists(workspace / "run"));
  write_text(workspace / "config.json", "{}");
  CHECK(workspace.tril("config check config.json").exit_code == 0);
}

TEST_CASE("the command line wins over the file, and is checked like it", "[cli][config]") {
  const Workspace workspace;
  const auto json =
      workspace.json("config show tiny.json --set train.batch_size=16 --set seed=1 --set seed=2");
  CHECK(json.at("train").at("batch_size") == 16);
  CHECK(json.at("seed") == 2);  // the last of two
  CHECK_THAT(refused(workspace.tril("config show tiny.json --set train.batch_size=abc"), 2),
             ContainsSubstring("train.batch_size") && ContainsSubstring("abc"));
  CHECK_THAT(refused(workspace.tril("config show tiny.json --set train.batch_sice=3"), 2),
             ContainsSubstring("Did you mean \"train.batch_size\""));
  workspace.require(std::string(kTrain) + "--set train.batch_size=3 --set train.steps=1");
  for (const fs::path& folder : {workspace / "run", checkpoint_folder(workspace / "run", 1)}) {
    CHECK(tril::Json::parse(read_text(folder / "config.json")).at("train").at("batch_size") == 3);
  }
}

TEST_CASE("impossible sizes are refused with the numbers", "[cli][config]") {
  const Workspace workspace;
  const std::vector<std::pair<std::string, Strings>> cases = {
      {"model.n_embed=100 --set model.n_head=3", {"100", "3"}},
      {"model.n_blocks=0", {"model.n_blocks", "0"}},
      {"model.n_head=0", {"model.n_head", "0"}},
      {"model.context_length=0", {"model.context_length", "0"}},
      {"model.dropout=1.0", {"model.dropout", "1"}}};
  for (const auto& [sets, numbers] : cases) {
    const auto message = refused(workspace.tril(kTrain + ("--set " + sets)), 2);
    for (const auto& number : numbers) CHECK_THAT(message, ContainsSubstring(number));
  }
  CHECK_FALSE(fs::exists(workspace / "run"));
  // A context of one token and a vocabulary of one are small, but possible.
  write_text(workspace / "a.txt", std::string(200, 'a'));
  workspace.require(std::string(kTrain) +
                    "--set model.context_length=1 --set data.train=a.txt --set train.steps=2");
  const RunLog log = read_metrics(workspace / "run");
  CHECK(std::abs(log.loss(1)) < 1e-6);  // one outcome: nothing to learn
  CHECK(workspace.require("generate run --max-new-tokens 5").out == "aaaaa\n");
}

TEST_CASE("the first step of a warm-up learns", "[cli][train]") {
  const Workspace workspace;
  const std::string train =
      "train --config tiny.json --set schedule.warmup_steps=10 --set train.steps=1 --run-dir ";
  workspace.require(train + "run");
  workspace.require(train + "still --set optimizer.learning_rate=1e-30");  // the initial weights
  CHECK(read_metrics(workspace / "run").learning_rate(1) == Approx(1e-3 / 11));
  CHECK(read_metrics(workspace / "run").loss(1) == read_metrics(workspace / "still").loss(1));
  CHECK(weights_of(workspace, "run", 1) != weights_of(workspace, "still", 1));
}

TEST_CASE("bf16 and fp16 work on a CPU", "[cli][train]") {
  const Workspace workspace;
  const auto automatic = workspace.require("train --config tiny.json --run-dir auto --device cpu");
  CHECK_THAT(automatic.err, ContainsSubstring("fp32"));
  const RunLog exact = read_metrics(workspace / "auto");
  for (const std::string precision : {"bf16", "fp16"}) {
    INFO(precision);
    const std::string train =
        "train --config tiny.json --device cpu --set train.precision=" + precision + " --run-dir " +
        precision;
    const auto trained = workspace.require(train);
    CHECK_THAT(trained.err, ContainsSubstring(precision));
    const RunLog log = read_metrics(workspace / precision);
    CHECK(log.loss(1) == Approx(exact.loss(1)).epsilon(0.01));
    CHECK(log.loss(10) < log.loss(1));
    CHECK(log.loss(10) != exact.loss(10));  // it is not fp32 in disguise
    workspace.require("evaluate " + precision + " --device cpu");
    workspace.require(train + " --resume --set train.steps=12");
  }
}

TEST_CASE("a device that is not there is refused, and auto trains anyway", "[cli][train]") {
  const Workspace workspace;
  const bool has_cuda = workspace.json("doctor --json").at("cuda") == "available";
  CHECK_THAT(refused(workspace.tril(std::string(kTrain) + "--device tpu"), 2),
             ContainsSubstring("cuda:N"));
  CHECK_THAT(refused(workspace.tril(std::string(kTrain) + "--device cuda:77"), 2),
             ContainsSubstring("cuda:77"));
  if (!has_cuda) {
    CHECK_THAT(refused(workspace.tril(std::string(kTrain) + "--device cuda"), 2),
               ContainsSubstring("device cuda"));
    CHECK_THAT(refused(workspace.tril(std::string(kTrain) + "--set device=cuda"), 2),
               ContainsSubstring("device cuda"));
  }
  CHECK_FALSE(fs::exists(workspace / "run"));
  workspace.require(std::string(kTrain) + "--set train.steps=2");  // device auto is the default
  CHECK_THAT(refused(workspace.tril("generate run --device cuda:77"), 2),
             ContainsSubstring("cuda:77"));
}

TEST_CASE("the first loss is ln V, whatever the accumulation and the padding", "[cli][train]") {
  const Workspace workspace;
  write_text(workspace / "kinds.txt", text_of_kinds(65, 4000));
  const std::string train =
      "train --config tiny.json --set data.train=kinds.txt --set train.batch_size=16 --set "
      "train.steps=1 --run-dir ";
  workspace.require(train + "one");
  workspace.require(train + "four --set train.accumulation=4 --set train.batch_size=4");
  workspace.require(train + "padded --set model.vocab_multiple=128");
  const double one = read_metrics(workspace / "one").loss(1);
  const double four = read_metrics(workspace / "four").loss(1);
  CHECK(one == Approx(std::log(65.0)).margin(0.15));
  CHECK(four == Approx(one).margin(1e-5));  // the same 16 windows
  CHECK(read_metrics(workspace / "padded").loss(1) == Approx(std::log(65.0)).margin(0.15));

  // 65 ids exist; the 63 rows of padding never come out, however hot.
  const auto sample =
      only_sample(workspace.json("generate padded --json --temperature 5 --max-new-tokens 2000"));
  const auto ids = sample.at("ids").get<std::vector<int64_t>>();
  REQUIRE(ids.size() == 2000);
  CHECK(*std::max_element(ids.begin(), ids.end()) < 65);
  CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() > 40);
}

TEST_CASE("a resumed run equals one that never stopped", "[cli][train][resume]") {
  const Workspace workspace;
  const Strings variants = {
      "",
      " --set model.dropout=0.1 --set train.precision=bf16 --set data.sampling=random",
      " --set model.preset=classic --set train.accumulation=2 --set train.eval_interval=5"};
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string base =
        " --set schedule.decay_steps=20 --set schedule.warmup_steps=4 --set seed=7" + variants[i];
    workspace.require("train --config tiny.json --set train.steps=20 --run-dir straight" + n +
                      base);
    workspace.require("train --config tiny.json --set train.steps=10 --run-dir resumed" + n + base);
    workspace.require("train --config tiny.json --set train.steps=20 --resume --run-dir resumed" +
                      n + base);
    const RunLog straight = read_metrics(workspace / ("straight" + n));
    const RunLog resumed = read_metrics(workspace / ("resumed" + n));
    REQUIRE(resumed.steps.size() == 20);
    for (int64_t step = 1; step <= 20; ++step) {
      INFO("step " << step << variants[i]);
      CHECK(resumed.loss(step) == straight.loss(step));
      CHECK(resumed.learning_rate(step) == straight.learning_rate(step));
    }
    CHECK(straight.loss(11) != straight.loss(1));
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      CHECK(read_text(checkpoint_folder(workspace / ("resumed" + n), 20) / file) ==
            read_text(checkpoint_folder(workspace / ("straight" + n), 20) / file));
    }
  }
  CHECK(read_metrics(workspace / "straight0").loss(12) !=
        read_metrics(workspace / "straight1").loss(12));
}

TEST_CASE("a longer plan on resume is said and followed", "[cli][train][resume]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) + "--set train.steps=10");
  const auto longer = workspace.require("train --run-dir run --resume --set train.steps=20");
  CHECK_THAT(longer.err, ContainsSubstring("train.steps from 10 to 20"));
  workspace.require("train --config tiny.json --run-dir straight --set train.steps=20");
  CHECK(read_metrics(workspace / "run").learning_rate(11) ==
        read_metrics(workspace / "straight").learning_rate(11));
}

TEST_CASE("a damaged checkpoint is refused with the file's name", "[cli][checkpoint]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const fs::path folder = checkpoint_folder(workspace / "run", 10);
  const fs::path path = folder / "model.safetensors";
  const std::string good = read_text(path);
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"", "truncated"},
      {good.substr(0, 1), "truncated"},
      {good.substr(0, good.size() / 2), "truncated"},
      {good.substr(0, good.size() - 1), "truncated"},
      {flipped, "checksum"},
      {small_text(), "damaged"}};
  for (const auto& [bytes, reason] : damages) {
    write_text(path, bytes);
    CHECK_THAT(refused(workspace.tril("generate run"), 4),
               ContainsSubstring("model.safetensors") && ContainsSubstring(reason));
  }
  write_text(path, flipped);
  const auto verified = workspace.tril("checkpoint verify run");
  CHECK(verified.exit_code == 4);
  CHECK_THAT(verified.out,
             ContainsSubstring("DAMAGED") && ContainsSubstring("model.safetensors") &&
                 ContainsSubstring("ok "));
  CHECK_THAT(verified.err,
             ContainsSubstring("1 of 2 checkpoints") && ContainsSubstring("model.safetensors") &&
                 ContainsSubstring("manifest.json"));
  refused(workspace.tril("train --run-dir run --resume --set train.steps=12"), 4);
  workspace.require("generate run --checkpoint 5 --max-new-tokens 3");  // the one before is sound

  // With a manifest that agrees, the format itself is checked.
  write_text(path, "this is no safetensors file at all");
  update_manifest(folder, "model.safetensors");
  CHECK_THAT(refused(workspace.tril("generate run"), 4), ContainsSubstring("model.safetensors"));
}

TEST_CASE("foreign files in the run folder stay", "[cli][checkpoint]") {
  const Workspace workspace;
  fs::create_directory(workspace / "run");
  write_text(workspace / "run/notes.txt", "mine");
  workspace.require(kTrain);
  workspace.require(std::string(kTrain) + "--overwrite");
  CHECK(read_text(workspace / "run/notes.txt") == "mine");
  CHECK(read_metrics(workspace / "run").steps.size() == 10);
}

TEST_CASE("the best and the last checkpoint stay, and say which they are", "[cli][checkpoint]") {
  const Workspace workspace;
  workspace.require(
      std::string(kTrain) +
      "--set train.steps=200 --set train.eval_interval=20 --set checkpoint.interval=20 "
      "--set optimizer.learning_rate=2e-2 --set model.n_embed=32 --set model.n_blocks=2 "
      "--set train.batch_size=16 --set checkpoint.keep_last=2");
  const RunLog log = read_metrics(workspace / "run");
  REQUIRE(log.validation_losses.size() == 10);
  const auto best = std::min_element(
      log.validation_losses.begin(), log.validation_losses.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      });
  REQUIRE(best->first < 180);  // it overfits: the text is tiny
  const std::string best_name = checkpoint_folder("", best->first).filename().string();
  CHECK(names_in(workspace / "run/checkpoints") ==
        Strings{best_name, "step_00000180", "step_00000200"});

  CHECK(workspace.json("evaluate run --json --checkpoint best").at("step") == best->first);
  CHECK(workspace.json("evaluate run --json --checkpoint best").at("loss").get<double>() ==
        Approx(best->second).epsilon(1e-6));
  CHECK(workspace.json("evaluate run --json").at("step") == 200);
  CHECK(workspace.json("evaluate run --json --checkpoint 180").at("step") == 180);
  const auto list = workspace.require("checkpoint list run");
  CHECK_THAT(list.out, ContainsSubstring("best") && ContainsSubstring("latest"));
  const auto resumed = workspace.require("train --run-dir run --resume --set train.steps=201");
  CHECK_THAT(resumed.err, ContainsSubstring("step_00000200"));
}

TEST_CASE("weights without optimizer state generate and do not resume", "[cli][checkpoint]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const fs::path folder = checkpoint_folder(workspace / "run", 10);
  auto manifest = tril::Json::parse(read_text(folder / "manifest.json"));
  manifest.at("files").erase("optimizer.safetensors");
  write_text(folder / "manifest.json", manifest.dump());
  fs::remove(folder / "optimizer.safetensors");
  const auto message =
      refused(workspace.tril("train --run-dir run --resume --set train.steps=12"), 4);
  CHECK_THAT(message, ContainsSubstring("weights only") && ContainsSubstring("new run"));
  workspace.require("generate run --max-new-tokens 3");
}

TEST_CASE("a resume with other settings names each of them", "[cli][checkpoint]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const std::string before = read_text(workspace / "run/config.json");
  const auto message =
      refused(workspace.tril(
                  "train --config tiny.json --run-dir run --resume --set model.n_blocks=3 "
                  "--set model.context_length=8 --set train.batch_size=8 --set model.dropout=0.1"),
              2);
  for (const char* expected : {"model.n_blocks: 1 in the run, 3 wanted",
                               "model.context_length: 16",
                               "train.batch_size: 4",
                               "model.dropout: 0"}) {
    CHECK_THAT(message, ContainsSubstring(expected));
  }
  CHECK(read_text(workspace / "run/config.json") == before);
  const auto allowed = workspace.require(
      "train --config tiny.json --run-dir run --resume --set train.steps=12 --set "
      "train.log_interval=2");
  CHECK_THAT(allowed.err, ContainsSubstring("train.log_interval from 1 to 2"));
}

TEST_CASE("temperature 0 is the most probable token, and nonsense is refused", "[cli][generate]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const std::string generate = "generate run --prompt cat --max-new-tokens 40 --temperature ";
  const auto greedy = workspace.require(generate + "0 --seed 1").out;
  CHECK(workspace.require(generate + "0 --seed 2").out == greedy);
  CHECK(workspace.require(generate + "1e-8 --seed 3").out == greedy);
  CHECK(workspace.require(generate + "1 --seed 1").out != greedy);
  for (const char* wrong : {"-1", "nan", "inf"}) {
    CHECK_THAT(refused(workspace.tril(generate + wrong), 2), ContainsSubstring("--temperature"));
  }
  CHECK_THAT(refused(workspace.tril("generate run --top-p 0"), 2), ContainsSubstring("--top-p"));
  CHECK_THAT(refused(workspace.tril("generate run --top-k -1"), 2), ContainsSubstring("--top-k"));
}

TEST_CASE("a prompt longer than the context goes on from its end", "[cli][generate]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) +
                    "--set train.steps=60 --set optimizer.learning_rate=1e-2");
  const std::string text = small_text();
  const auto go_on = [&](size_t length) {
    return workspace.tril("generate run --json --temperature 0 --max-new-tokens 5 --prompt-file -",
                          {},
                          {.input = text.substr(1000 - length, length)});
  };
  const auto exact = go_on(16);  // the context
  CHECK(exact.err.empty());
  for (const size_t length : {size_t{17}, size_t{1000}}) {
    const auto longer = go_on(length);
    CHECK(longer.exit_code == 0);
    CHECK(longer.out == exact.out);
    CHECK_THAT(longer.err, ContainsSubstring("kept the last 16 of " + std::to_string(length)));
  }
  CHECK(go_on(15).exit_code == 0);
}

TEST_CASE("the key and value cache does not change the text", "[cli][generate]") {
  const Workspace workspace;
  for (const char* positions : {"learned", "rope"}) {
    const std::string run = positions;
    workspace.require(
        "train --config tiny.json --set train.steps=40 --set optimizer.learning_rate=1e-2 --set "
        "model.positions=" +
        run + " --run-dir " + run);
    for (const char* how : {"--temperature 0", "--temperature 1 --seed 5"}) {
      const std::string line = "generate " + run + " --json --prompt dog --max-new-tokens 60 " +
                               how;  // the context is 16
      const auto cached = workspace.require(line).out;
      CHECK(tril::Json::parse(cached).at("samples")[0].at("ids").size() == 60);
      CHECK(workspace.require(line + " --no-cache").out == cached);
    }
  }
}

TEST_CASE("a prompt outside the vocabulary is named, and no prompt always works",
          "[cli][generate]") {
  const Workspace workspace;
  write_text(workspace / "abc.txt", repeat("abcabc", 200));  // no newline and no space
  workspace.require(std::string(kTrain) + "--set data.train=abc.txt --set train.steps=2");
  CHECK(workspace.require("generate run --max-new-tokens 5").out.size() == 6);
  CHECK(workspace.require("generate run --max-new-tokens 5 --prompt abc").out.starts_with("abc"));
  CHECK_THAT(refused(workspace.tril("generate run --prompt d"), 3),
             ContainsSubstring("'d' (U+0064)"));
  CHECK_THAT(refused(workspace.tril("generate run --prompt", {"é"}), 3),
             ContainsSubstring("U+00E9"));
  CHECK_THAT(refused(workspace.tril("generate run --prompt", {"a d"}), 3),
             ContainsSubstring("U+0020") && ContainsSubstring("1"));
}

TEST_CASE("generation says how long its parts took", "[cli][generate]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const Json timing =
      workspace.json("generate run --timing --json --max-new-tokens 9 --prompt", {"the cat"})
          .at("timing");
  CHECK(timing.at("prompt_tokens") == 7);
  CHECK(timing.at("step_tokens") == 8);  // the first one comes with the prompt
  CHECK(timing.at("prompt_seconds").get<double>() > 0);
  CHECK(timing.at("step_seconds").get<double>() > 0);
  CHECK_THAT(refused(workspace.tril("generate run --timing"), 2), ContainsSubstring("--json"));
}

TEST_CASE("weights that are not finite are named, not sampled from", "[cli][generate]") {
  const Workspace workspace;
  workspace.require(kTrain);
  overwrite_weights(checkpoint_folder(workspace / "run", 10), std::nanf(""), Which::kFirst);
  CHECK(workspace.tril("checkpoint verify run").exit_code == 0);  // the file itself is sound
  for (const char* command :
       {"generate run", "generate run --temperature 0 --json", "evaluate run --json"}) {
    const auto result = workspace.tril(command);
    INFO(command << "\n" << result.out << result.err);
    CHECK(result.exit_code == 4);
    CHECK_THAT(result.err, ContainsSubstring("not finite") && ContainsSubstring("step 10"));
    CHECK(result.out.find("ids") == std::string::npos);
  }
}

TEST_CASE("json stays valid whatever bytes a token holds", "[cli][generate]") {
  const Workspace workspace;
  std::string bytes;
  uint32_t state = 3;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525U + 1013904223U;
    bytes += static_cast<char>(static_cast<unsigned char>(state >> 16));
  }
  write_text(workspace / "random.bin", bytes);
  workspace.require(std::string(kTrain) +
                    "--set data.train=random.bin --set data.tokenizer=byte --set train.steps=1");
  const auto sample =
      only_sample(workspace.json("generate run --json --temperature 3 --max-new-tokens 300"));
  CHECK(sample.at("ids").size() == 300);
  const auto prompted =
      workspace.json("generate run --json --max-new-tokens 5 --prompt", {"🤗 \xc3"});
  CHECK(only_sample(prompted).at("ids").size() == 5);
  const auto encoded = workspace.json("tokenizer encode --json --tokenizer byte random.bin");
  CHECK(encoded.at("ids").size() == bytes.size());
  CHECK(workspace.tril("tokenizer decode --tokenizer byte -", {}, {.input = encoded.dump()}).out ==
        bytes);
  CHECK(workspace.json("tokenizer decode --json --tokenizer byte -", {}, {.input = "240 159"})
            .contains("text"));
}

TEST_CASE("generation ends before a stop text and says why", "[cli][generate]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) + "--set train.steps=2");
  const std::string generate = "generate run --json --seed 9 --max-new-tokens 80";
  const auto free = only_sample(workspace.json(generate));
  const auto text = free.at("text").get<std::string>();
  CHECK(free.at("stop_reason") == "length");
  const std::string stop = text.substr(40, 3);  // three tokens long
  const auto stopped = only_sample(workspace.json(generate + " --stop QQQ --stop", {stop}));
  CHECK(stopped.at("stop_reason") == "stop");
  CHECK(stopped.at("text") == text.substr(0, text.find(stop)));
  CHECK(only_sample(workspace.json(generate + " --stop QQQ")) == free);
}

TEST_CASE("every token but the first is scored once, at any batch size", "[cli][evaluate]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) + "--set model.context_length=4");
  write_text(workspace / "ten.txt", small_text().substr(0, 10));
  const auto one = workspace.json("evaluate run --json --data ten.txt --batch-size 1");
  CHECK(one.at("tokens") == 9);
  for (const char* size : {"2", "8"}) {
    const auto other =
        workspace.json(std::string("evaluate run --json --data ten.txt --batch-size ") + size);
    CHECK(other.at("tokens") == 9);
    CHECK(other.at("loss").get<double>() == Approx(one.at("loss").get<double>()).epsilon(1e-6));
  }
  CHECK(workspace.json("evaluate run --json --data ten.txt --batch-size 1") == one);

  // The logged number, the whole split's and one of "more than there is" are the same.
  const RunLog log = read_metrics(workspace / "run");
  CHECK(workspace.json("evaluate run --json").at("loss").get<double>() ==
        Approx(log.validation_losses.at(10)).epsilon(1e-6));
  workspace.require(
      "train --config tiny.json --set model.context_length=4 --run-dir more --set "
      "train.eval_tokens=1000000");
  CHECK(read_metrics(workspace / "more").validation_losses == log.validation_losses);

  // Weights of zero give every token the same chance.
  overwrite_weights(checkpoint_folder(workspace / "run", 10), 0.0F, Which::kAll);
  CHECK(workspace.json("evaluate run --json").at("perplexity").get<double>() ==
        Approx(13.0).epsilon(1e-6));
}

TEST_CASE("a loss below the floor of the tales is called a defect", "[cli][evaluate]") {
  const Workspace workspace;
  ProcessOptions own_cache;
  own_cache.environment["TRIL_CACHE"] = (workspace / "cache").string();
  const auto trained = workspace.tril(
      std::string(kTrain) + "--set data.train=tales --set data.tales_bytes=20000", {}, own_cache);
  INFO(trained.err);
  REQUIRE(trained.exit_code == 0);
  CHECK(workspace.tril("evaluate run --json", {}, own_cache).exit_code == 0);
  // A side file that claims a thousand times the entropy: now the loss looks too good to be true.
  for (const auto& entry : fs::directory_iterator(workspace / "cache")) {
    if (entry.path().extension() != ".marks") continue;
    std::istringstream lines(read_text(entry.path()));
    std::string text;
    std::getline(lines, text);
    double end_byte = 0;
    double nats = 0;
    while (lines >> end_byte >> nats) {
      text += "\n" + std::to_string(std::llround(end_byte)) + " " + std::to_string(1000 * nats);
    }
    write_text(entry.path(), text + "\n");
  }
  for (const char* command : {"evaluate run", "evaluate run --json"}) {
    const auto result = workspace.tril(command, {}, own_cache);
    INFO(command << "\n" << result.out << result.err);
    CHECK(result.exit_code == 4);
    CHECK_THAT(result.err, ContainsSubstring("below the exact entropy floor"));
  }
}

TEST_CASE("a model too large for the machine is refused at once", "[cli][train]") {
  const Workspace workspace;
  const auto result = workspace.tril(std::string(kTrain) +
                                     "--set model.n_blocks=96 --set model.n_embed=12288 --set "
                                     "model.n_head=96 --set model.context_length=128");
  const auto message = refused(result, 6);
  for (const char* part :
       {"weights", "gradients", "moments", "activations", "available", "train.batch_size"}) {
    CHECK_THAT(message, ContainsSubstring(part));
  }
  CHECK(result.cpu_seconds < 5);
  CHECK_FALSE(fs::exists(workspace / "run"));
}

TEST_CASE("no more threads work than were asked for", "[cli][train][slow]") {
  const Workspace workspace;
  const auto result = workspace.require(std::string(kTrain) +
                                        "--threads 1 --set train.steps=60 --set model.n_embed=128 "
                                        "--set model.context_length=64 --set train.batch_size=32");
  CHECK_THAT(result.err, ContainsSubstring("1 threads"));
  CHECK(result.cpu_seconds / result.wall_seconds < 1.1);
  workspace.require("train --config tiny.json --run-dir two --threads 2");
  CHECK(tril::Json::parse(read_text(workspace / "two/config.json")).at("threads") == 2);
}
