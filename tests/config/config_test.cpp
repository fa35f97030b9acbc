#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "tril/base/error.h"
#include "tril/config/json_reader.h"
#include "tril/config/run_config.h"

namespace fs = std::filesystem;

namespace tril {
namespace {

using Sets = std::vector<std::string>;

const fs::path kSourceDir = TRIL_SOURCE_DIR;

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// The message of the ConfigError that `f` throws; "" when it throws none. Any other exception
/// fails the test by passing through.
template <typename F>
std::string config_error(F&& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Writes a config file and loads it.
RunConfig load_text(const std::string& text, const Sets& sets = {}) {
  const testing::TempDir dir;
  write_text(dir / "a.json", text);
  return load_run_config(dir / "a.json", sets);
}
std::string error_of(const std::string& text, const Sets& sets = {}) {
  return config_error([&] { load_text(text, sets); });
}
std::string set_error(const Sets& sets) {
  return config_error([&] { load_run_config(std::nullopt, sets); });
}

/// The working folder for the length of a test.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~WorkingFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  fs::path before_;
};

}  // namespace

// ---------------------------------------------------------------- defaults and broken files

TEST_CASE("an empty config and no config are the defaults", "[config]") {
  RunConfig expected;
  expected.run_dir = (fs::current_path() / "runs" / "a").string();
  CHECK(load_text("{}") == expected);
  expected.run_dir = (fs::current_path() / "runs" / "default").string();
  CHECK(load_run_config(std::nullopt, {}) == expected);
}

TEST_CASE("the default model is the preset modern", "[config]") {
  CHECK(ModelConfig{} == model_preset(Preset::kModern));
}

TEST_CASE("a top level that is no object is refused", "[config]") {
  CHECK_THAT(error_of("[]"), ContainsSubstring("top level must be an object"));
  CHECK_THAT(error_of("42"), ContainsSubstring("top level must be an object"));
  CHECK_THAT(error_of("null"), ContainsSubstring("top level must be an object"));
}

TEST_CASE("broken JSON is refused with file, line and column", "[config]") {
  for (const char* text : {"{\"seed\": 1,}",
                           "// note\n{}",
                           "{\"seed\": 1",
                           "",
                           "{\"seed\": NaN}",
                           "{\"seed\": 1} x"}) {
    INFO(text);
    const std::string error = error_of(text);
    CHECK_THAT(error, ContainsSubstring("a.json"));
    CHECK_THAT(error, Catch::Matchers::Matches("[\\s\\S]*a\\.json:[0-9]+:[0-9]+[\\s\\S]*"));
  }
  CHECK_THAT(error_of("{\"train\": {\"steps\": 1, \"steps\": 2}}"), ContainsSubstring("steps"));
}

TEST_CASE("a missing file or a folder is refused by name", "[config]") {
  const testing::TempDir dir;
  CHECK_THAT(config_error([&] { load_run_config(dir / "none.json", {}); }),
             ContainsSubstring("none.json"));
  CHECK_FALSE(config_error([&] { load_run_config(dir.path(), {}); }).empty());
}

// ---------------------------------------------------------------- unknown keys

TEST_CASE("an unknown key is refused with the nearest known one", "[config]") {
  const std::string typo = error_of(R"({"optimizer": {"learning_rat": 3e-4}})");
  CHECK_THAT(typo, ContainsSubstring("a.json: unknown key \"optimizer.learning_rat\""));
  CHECK_THAT(typo, ContainsSubstring("0.0003"));
  CHECK_THAT(typo, ContainsSubstring("Did you mean \"optimizer.learning_rate\"?"));

  CHECK_THAT(error_of(R"({"learning_rate": 3e-4})"),
             ContainsSubstring("\"learning_rate\" belongs to \"optimizer\""));
  CHECK_THAT(error_of(R"({"train": {"learning_rate": 3e-4}})"),
             ContainsSubstring("\"learning_rate\" belongs to \"optimizer\""));
  CHECK_THAT(error_of(R"({"model": {"seed": 1}})"),
             ContainsSubstring("\"seed\" belongs to the top level"));
  CHECK_THAT(error_of(R"({"learning_rat": 3e-4})"),
             ContainsSubstring("Did you mean \"optimizer.learning_rate\"?"));
  CHECK_THAT(error_of(R"({"train": {"Batch_Size": 4}})"),
             ContainsSubstring("Did you mean \"train.batch_size\"?"));
  CHECK_THAT(error_of(R"({"Model": {}})"), ContainsSubstring("Did you mean \"model\"?"));
  CHECK_THAT(error_of(R"({"extend": "b.json"})"), ContainsSubstring("Did you mean \"extends\"?"));
  CHECK_THAT(error_of(R"({"optimiser": {}})"), ContainsSubstring("Did you mean \"optimizer\"?"));
  CHECK_THAT(error_of(R"({"train.steps": 5})"), ContainsSubstring(R"({"train": {"steps": ...}})"));
  CHECK_THAT(error_of(R"({"model": {"n_layer": 5}})"), ContainsSubstring("\"model.n_blocks\""));
  CHECK_THAT(error_of(R"({"model": {"zzzzzzzzzzz": 5}})"),
             ContainsSubstring("Keys of \"model\": preset, context_length"));
  CHECK_THAT(error_of(R"({"": 1})"), ContainsSubstring("unknown key \"\""));
  CHECK_THAT(error_of(R"({"train": {"extends": "b.json"}})"), ContainsSubstring("unknown key"));
}

TEST_CASE("a section that is no object is refused", "[config]") {
  CHECK_THAT(error_of(R"({"train": 5})"), ContainsSubstring("train must be an object"));
  CHECK_THAT(error_of(R"({"train": null})"), ContainsSubstring("train must be an object"));
  CHECK_THAT(error_of(R"({"train": [1]})"), ContainsSubstring("found a list"));
}

// ---------------------------------------------------------------- types and ranges

TEST_CASE("a step with dropout cannot be recorded", "[config]") {
  CHECK_THAT(error_of(R"({"train": {"cuda_graph": true}, "model": {"dropout": 0.1}})"),
             ContainsSubstring("train.cuda_graph needs model.dropout 0; found 0.1"));
  CHECK(error_of(R"({"train": {"cuda_graph": true}, "model": {"dropout": 0}})").empty());
}

TEST_CASE("a wrong type names key, value and what is expected", "[config]") {
  CHECK_THAT(error_of(R"({"train": {"batch_size": "abc"}})"),
             ContainsSubstring("a.json: train.batch_size must be a whole number, 1 to 1048576; "
                               "found \"abc\""));
  CHECK_THAT(error_of(R"({"train": {"batch_size": "8"}})"), ContainsSubstring("without quotes"));
  CHECK_THAT(error_of(R"({"train": {"batch_size": 8.5}})"), ContainsSubstring("found 8.5"));
  CHECK_THAT(error_of(R"({"train": {"batch_size": true}})"), ContainsSubstring("found true"));
  CHECK_THAT(error_of(R"({"train": {"batch_size": null}})"), ContainsSubstring("found null"));
  CHECK_THAT(error_of(R"({"train": {"batch_size": [8]}})"), ContainsSubstring("found a list"));
  CHECK_THAT(error_of(R"({"model": {"bias": 1}})"), ContainsSubstring("true or false; found 1"));
  CHECK_THAT(error_of(R"({"model": {"dropout": true}})"), ContainsSubstring("a number"));
  CHECK_THAT(error_of(R"({"device": 0})"), ContainsSubstring("auto, cpu, cuda or cuda:N; found 0"));
  CHECK_THAT(error_of(R"({"run_dir": 1})"), ContainsSubstring("run_dir must be a text"));
  CHECK_THAT(error_of(R"({"schedule": {"min_learning_rate": "x"}})"),
             ContainsSubstring("null or a number"));
}

TEST_CASE("whole numbers may be written with a point or exponent", "[config]") {
  CHECK(load_text(R"({"train": {"batch_size": 8.0}})").train.batch_size == 8);
  CHECK(load_text(R"({"train": {"steps": 1e3}})").train.steps == 1000);
  CHECK(load_text(R"({"optimizer": {"learning_rate": 1}})").optimizer.learning_rate == 1.0);
  CHECK(load_text(R"({"seed": 9007199254740992})").seed == 9007199254740992U);  // 2^53
}

TEST_CASE("a name that is not among the choices is refused with all of them", "[config]") {
  const std::string error = error_of(R"({"schedule": {"name": "cosin"}})");
  CHECK_THAT(error, ContainsSubstring("one of cosine, linear, constant, wsd; found \"cosin\""));
  CHECK_THAT(error, ContainsSubstring("Did you mean \"cosine\"?"));
  CHECK_THAT(error_of(R"({"model": {"preset": "gpt3"}})"), ContainsSubstring("\"gpt2\""));
  CHECK_THAT(error_of(R"({"train": {"precision": "fp8"}})"),
             ContainsSubstring("auto, fp32, bf16, fp16"));
  CHECK_THAT(error_of(R"({"model": {"norm": 3}})"), ContainsSubstring("layer_norm, rms_norm"));
}

TEST_CASE("values outside their range are refused", "[config]") {
  const std::vector<std::string> bad = {"seed=-1",
                                        "seed=9007199254740994",
                                        "seed=1e300",
                                        "seed=18446744073709551616",
                                        "threads=-1",
                                        "device=gpu",
                                        "device=cuda:",
                                        "device=cuda:x",
                                        "device=cuda:-1",
                                        "device=cuda:01",
                                        "device=",
                                        "data.validation_fraction=1",
                                        "data.validation_fraction=-0.1",
                                        "data.tales_bytes=0",
                                        "data.tales_seed=-1",
                                        "data.train=",
                                        "data.tokenizer=",
                                        "model.context_length=0",
                                        "model.n_embed=0",
                                        "model.n_head=0",
                                        "model.n_blocks=0",
                                        "model.n_blocks=-1",
                                        "model.rope_base=1",
                                        "model.norm_epsilon=0",
                                        "model.dropout=1",
                                        "model.dropout=1.0",
                                        "model.dropout=-0.1",
                                        "model.dropout=nan",
                                        "model.dropout=inf",
                                        "model.dropout=1e999",
                                        "model.ffn_width=-1",
                                        "model.ffn_multiplier=0",
                                        "model.vocab_size=-1",
                                        "model.vocab_multiple=0",
                                        "optimizer.learning_rate=0",
                                        "optimizer.learning_rate=-1e-3",
                                        "optimizer.learning_rate=1e400",
                                        "optimizer.beta1=1",
                                        "optimizer.beta2=1.0",
                                        "optimizer.epsilon=0",
                                        "optimizer.weight_decay=-1",
                                        "optimizer.grad_clip=-1",
                                        "schedule.warmup_steps=-1",
                                        "schedule.min_learning_rate=-1",
                                        "schedule.decay_steps=-1",
                                        "train.steps=-1",
                                        "train.tokens=-1",
                                        "train.epochs=-1",
                                        "train.batch_size=0",
                                        "train.accumulation=0",
                                        "train.tokens_per_step=-1",
                                        "train.eval_interval=-1",
                                        "train.eval_tokens=-1",
                                        "train.log_interval=0",
                                        "train.sample_interval=-1",
                                        "train.sample_tokens=0",
                                        "train.max_minutes=-1",
                                        "checkpoint.interval=-1",
                                        "checkpoint.interval_minutes=-1",
                                        "checkpoint.keep_last=-1"};
  for (const std::string& set : bad) {
    INFO(set);
    const std::string error = set_error({set});
    CHECK_THAT(error, ContainsSubstring("--set " + set));
    CHECK_THAT(error, ContainsSubstring(set.substr(0, set.find('=')) + " must be "));
  }
  CHECK_THAT(set_error({"optimizer.learning_rate=0"}),
             ContainsSubstring("greater than 0; found 0"));
  CHECK_THAT(set_error({"model.dropout=1"}), ContainsSubstring("0 to less than 1; found 1"));
}

TEST_CASE("values at the edge of their range are accepted", "[config]") {
  for (const std::string set : {"model.context_length=1",
                                "model.vocab_size=1",
                                "model.dropout=0.999",
                                "device=cuda:7",
                                "data.validation_fraction=0",
                                "optimizer.beta1=0",
                                "optimizer.grad_clip=0",
                                "schedule.warmup_steps=0",
                                "schedule.min_learning_rate=0",
                                "checkpoint.keep_last=0"}) {
    INFO(set);
    CHECK(set_error({set}).empty());
  }
}

// ---------------------------------------------------------------- contradictions

TEST_CASE("impossible geometry is refused with both numbers", "[config]") {
  CHECK_THAT(set_error({"model.n_embed=100", "model.n_head=3"}),
             ContainsSubstring("n_embed 100 and n_head 3"));
  // 12 / 4 = 3 dimensions cannot turn in pairs; learned positions do not mind.
  CHECK_THAT(set_error({"model.n_embed=12", "model.n_head=4"}), ContainsSubstring("12 / 4 = 3"));
  CHECK(set_error({"model.n_embed=12", "model.n_head=4", "model.positions=learned"}).empty());
}

TEST_CASE("at most one of steps, tokens and epochs", "[config]") {
  const std::string error = error_of(R"({"train": {"steps": 5, "epochs": 2}})");
  CHECK_THAT(error, ContainsSubstring("a.json"));
  CHECK_THAT(error, ContainsSubstring("train.steps 5 and train.epochs 2"));
  CHECK_FALSE(set_error({"train.steps=5", "train.tokens=7"}).empty());
  CHECK(load_text(R"({"train": {"steps": null, "epochs": 2, "tokens": 0}})").train.epochs == 2);
}

TEST_CASE("a later layer's steps, tokens or epochs replace an earlier one's", "[config]") {
  const RunConfig config = load_text(R"({"train": {"steps": 5}})", {"train.tokens=70"});
  CHECK(config.train.steps == 0);
  CHECK(config.train.tokens == 70);
  const RunConfig back = override_run_config(config, {"train.steps=9"});
  CHECK(back.train.steps == 9);
  CHECK(back.train.tokens == 0);
  CHECK(override_run_config(config, {"train.steps=0"}).train.tokens == 70);
}

TEST_CASE("tokens_per_step is a multiple of a batch and excludes accumulation", "[config]") {
  const RunConfig config = load_text(
      R"({"model": {"context_length": 8}, "train": {"batch_size": 4, "tokens_per_step": 96}})");
  CHECK(config.train.micro_batches(8) == 3);
  CHECK(config.train.windows_per_step(8) == 12);
  // One batch is 32 tokens: 100 lies between 96 and 128; 20 below one batch.
  CHECK_THAT(
      error_of(
          R"({"model": {"context_length": 8}, "train": {"batch_size": 4, "tokens_per_step": 100}})"),
      ContainsSubstring("4 x 8 = 32; found 100. The nearest are 96 and 128"));
  CHECK_THAT(
      error_of(
          R"({"model": {"context_length": 8}, "train": {"batch_size": 4, "tokens_per_step": 20}})"),
      ContainsSubstring("The nearest are 32 and 64"));
  CHECK_THAT(error_of(R"({"train": {"accumulation": 2, "tokens_per_step": 8192}})"),
             ContainsSubstring("not both"));
  CHECK(load_text(R"({"train": {"accumulation": 2}})", {"train.tokens_per_step=8192"})
            .train.accumulation == 1);
  CHECK(load_text(R"({"train": {"tokens_per_step": 8192}})", {"train.accumulation=2"})
            .train.tokens_per_step == 0);
}

TEST_CASE("the lowest learning rate is at most the highest", "[config]") {
  CHECK_THAT(set_error({"optimizer.learning_rate=1e-3", "schedule.min_learning_rate=2e-3"}),
             ContainsSubstring("found 0.002 and 0.001"));
  CHECK(set_error({"optimizer.learning_rate=1e-3", "schedule.min_learning_rate=1e-3"}).empty());
}

TEST_CASE("sizes whose product cannot be counted are refused", "[config]") {
  CHECK_THAT(set_error({"train.batch_size=1048576", "train.accumulation=1048576"}),
             ContainsSubstring("one step may have at most"));
  CHECK_THAT(
      set_error(
          {"train.steps=1000000000000", "train.batch_size=1048576", "model.context_length=1"}),
      ContainsSubstring("more than can be counted"));
  TrainConfig train;
  train.epochs = 1e9;
  CHECK_THROWS_AS(train.total_steps(1, int64_t{1} << 40), ConfigError);
}

TEST_CASE("a config made by code is checked as a file is", "[config]") {
  RunConfig config;
  CHECK_NOTHROW(validate(config, "test"));
  config.model.dropout = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(config_error([&] { validate(config, "test"); }),
             ContainsSubstring("test: model.dropout must be a number"));
  config = {};
  config.model.n_head = 0;
  CHECK_THAT(config_error([&] { validate(config, "test"); }), ContainsSubstring("model.n_head"));
}

// ---------------------------------------------------------------- --set

TEST_CASE("setting a key by --set: wins over the file and the last of the same key wins",
          "[config]") {
  CHECK(load_text(R"({"train": {"batch_size": 8}})", {"train.batch_size=16"}).train.batch_size ==
        16);
  CHECK(load_text("{}", {"train.batch_size=16", "train.batch_size=4"}).train.batch_size == 4);
  CHECK(load_text("{}", {"model.bias=true"}).model.bias);
  CHECK(load_text("{}", {"schedule.name=wsd"}).schedule.name == ScheduleName::kWsd);
  CHECK(load_text("{}", {"schedule.name=\"wsd\""}).schedule.name == ScheduleName::kWsd);
  CHECK_FALSE(
      load_text(R"({"schedule": {"min_learning_rate": 1e-5}})", {"schedule.min_learning_rate=null"})
          .schedule.min_learning_rate);
}

TEST_CASE("text keys take --set values as they stand", "[config]") {
  const auto prompt = [](const std::string& value) {
    return load_run_config(std::nullopt, {"train.sample_prompt=" + value}).train.sample_prompt;
  };
  CHECK(prompt("Once upon") == "Once upon");
  CHECK(prompt("42") == "42");
  CHECK(prompt("a=b") == "a=b");
  CHECK(prompt("").empty());
  CHECK(prompt(R"("line\n")") == "line\n");
  CHECK(prompt(R"("open)") == R"("open)");
}

TEST_CASE("setting a key by --set: is checked like the file and named in the error", "[config]") {
  CHECK_THAT(set_error({"train.batch_size=abc"}),
             ContainsSubstring("--set train.batch_size=abc: train.batch_size must be a whole"));
  CHECK_THAT(set_error({"train.batchsize=4"}),
             ContainsSubstring("Did you mean \"train.batch_size\""));
  CHECK_THAT(set_error({"batch_size=4"}), ContainsSubstring("train.batch_size"));
  CHECK_THAT(set_error({"trian.batch_size=4"}), ContainsSubstring("Did you mean \"train\"?"));
  CHECK_THAT(set_error({"train=4"}), ContainsSubstring("train is a section"));
  CHECK_THAT(set_error({"extends=a.json"}), ContainsSubstring("config file only"));
  CHECK_THAT(set_error({"train.batch_size"}), ContainsSubstring("expected KEY=VALUE"));
  CHECK_THAT(set_error({"=4"}), ContainsSubstring("expected KEY=VALUE"));
  CHECK_THAT(set_error({""}), ContainsSubstring("expected KEY=VALUE"));
  CHECK_THAT(set_error({"train.=4"}), ContainsSubstring("unknown key"));
  CHECK_THAT(set_error({".steps=4"}), ContainsSubstring("unknown"));
  CHECK_THAT(set_error({"train.steps.x=4"}), ContainsSubstring("unknown key"));
  CHECK_THAT(set_error({"train.sample_prompt=\xff"}), ContainsSubstring("UTF-8"));
  CHECK_THAT(set_error({"train.\xff=1"}), ContainsSubstring("UTF-8"));
  // The value of an earlier, overridden --set does not matter, but a file's value is still checked.
  CHECK_FALSE(error_of(R"({"train": {"batch_size": 0}})", {"train.batch_size=4"}).empty());
}

// ---------------------------------------------------------------- extends and paths

TEST_CASE("a file overrides what it extends, and paths are relative to their own file",
          "[config]") {
  const testing::TempDir dir;
  const fs::path root = fs::canonical(dir.path());
  write_text(root / "base" / "b.json",
             R"({"data": {"train": "text/a.txt", "tokenizer": "byte"}, "train": {"steps": 5,
                 "batch_size": 2}, "run_dir": "out"})");
  write_text(root / "a.json",
             R"({"extends": "base/b.json", "data": {"validation": "../v.txt"},
                 "train": {"batch_size": 3}})");
  write_text(root / "work" / "x", "");
  const WorkingFolder work(root / "work");
  const RunConfig config = load_run_config(root / "a.json", {});
  CHECK(config.data.train == (root / "base/text/a.txt").string());
  CHECK(config.data.validation == (root.parent_path() / "v.txt").string());
  CHECK(config.data.tokenizer == "byte");
  CHECK(config.train.steps == 5);
  CHECK(config.train.batch_size == 3);
  CHECK(config.run_dir == (root / "work/out").string());

  const RunConfig relative = load_run_config("../a.json", {"data.train=./c.txt"});
  CHECK(relative.data.train == (root / "work/c.txt").string());
  CHECK(relative.data.validation == config.data.validation);
  CHECK(load_run_config(std::nullopt, {"run_dir=2024/"}).run_dir == (root / "work/2024").string());
  CHECK(load_run_config(std::nullopt, {}).run_dir == (root / "work/runs/default").string());
}

TEST_CASE("files that extend each other in a circle or too deep are refused", "[config]") {
  const testing::TempDir dir;
  write_text(dir / "a.json", R"({"extends": "b.json"})");
  write_text(dir / "b.json", R"({"extends": "./a.json"})");
  CHECK_THAT(config_error([&] { load_run_config(dir / "a.json", {}); }),
             ContainsSubstring("circle: a.json -> b.json -> a.json"));
  write_text(dir / "self.json", R"({"extends": "self.json"})");
  CHECK_THAT(config_error([&] { load_run_config(dir / "self.json", {}); }),
             ContainsSubstring("circle"));
  write_text(dir / "f0.json", "{}");
  for (int i = 1; i <= 17; ++i) {
    write_text(dir / ("f" + std::to_string(i) + ".json"),
               R"({"extends": "f)" + std::to_string(i - 1) + R"(.json"})");
  }
  CHECK(config_error([&] { load_run_config(dir / "f16.json", {}); }).empty());
  CHECK_THAT(config_error([&] { load_run_config(dir / "f17.json", {}); }),
             ContainsSubstring("more than 16 deep"));
}

TEST_CASE("an extends that cannot be followed is refused with both files", "[config]") {
  const std::string missing = error_of(R"({"extends": "none.json"})");
  CHECK_THAT(missing, ContainsSubstring("a.json: extends"));
  CHECK_THAT(missing, ContainsSubstring("none.json"));
  for (const char* value : {"5", "\"\"", "null", "[]", "\"a\\u0000b\""}) {
    INFO(value);
    CHECK_THAT(error_of(std::string(R"({"extends": )") + value + "}"),
               ContainsSubstring("extends must be the path"));
  }
  CHECK_FALSE(error_of(R"({"extends": "."})").empty());
}

TEST_CASE("an error in an extended file names that file", "[config]") {
  const testing::TempDir dir;
  write_text(dir / "a.json", R"({"extends": "base.json"})");
  write_text(dir / "base.json", R"({"train": {"step": 5}})");
  CHECK_THAT(config_error([&] { load_run_config(dir / "a.json", {}); }),
             ContainsSubstring("base.json: unknown key \"train.step\""));
}

TEST_CASE("a misspelt keyword is not taken for a path", "[config]") {
  CHECK_THAT(set_error({"data.train=talse"}), ContainsSubstring("Did you mean \"tales\"?"));
  CHECK_THAT(set_error({"data.tokenizer=chr"}), ContainsSubstring("Did you mean \"char\"?"));
  CHECK_THAT(set_error({"data.tokenizer=gtp2"}), ContainsSubstring("Did you mean \"gpt2\"?"));
  CHECK_THAT(set_error({"data.tokenizer=wordpiece"}), ContainsSubstring("\"gpt2\" or a path"));
  CHECK_THAT(set_error({"data.tokenizer=bpe:4k"}), ContainsSubstring("\"bpe:N\""));
  CHECK_THAT(set_error({"data.tokenizer=bpe:"}), ContainsSubstring("\"bpe:N\""));
  CHECK(load_run_config(std::nullopt, {"data.tokenizer=bpe:4096"}).data.tokenizer == "bpe:4096");
  CHECK(load_run_config(std::nullopt, {"data.train=./tales"}).data.train ==
        (fs::current_path() / "tales").string());
  CHECK_FALSE(error_of(R"({"data": {"train": "a.txt\u0000b"}})").empty());
}

TEST_CASE("a config is named after its file", "[config]") {
  CHECK(config_name(std::nullopt) == "default");
  CHECK(config_name("configs/smoke.json") == "smoke");
  CHECK(config_name("a.b.json") == "a.b");
}

// ---------------------------------------------------------------- presets and the model

TEST_CASE("a preset sets defaults and any key beside it overrides", "[config]") {
  const ModelConfig classic = load_text(R"({"model": {"preset": "classic"}})").model;
  CHECK(classic == model_preset(Preset::kClassic));
  CHECK(classic.positions == Positions::kLearned);
  CHECK(classic.norm == Norm::kLayerNorm);
  CHECK(classic.activation == Activation::kRelu);
  CHECK_FALSE(classic.qk_norm);
  CHECK(classic.bias);
  CHECK_FALSE(classic.qkv_bias);
  CHECK(classic.head_bias);
  CHECK_FALSE(classic.tie_embeddings);

  const ModelConfig gpt2 = load_text(R"({"model": {"bias": false, "preset": "gpt2"}})").model;
  CHECK(gpt2.activation == Activation::kGeluTanh);
  CHECK_FALSE(gpt2.bias);
  CHECK(gpt2.qkv_bias);
  CHECK_FALSE(gpt2.head_bias);
  CHECK(gpt2.tie_embeddings);

  // The preset of the last layer, under explicit keys of every layer.
  const ModelConfig mixed = load_text(R"({"model": {"preset": "classic", "activation": "gelu"}})",
                                      {"model.preset=modern"})
                                .model;
  CHECK(mixed.preset == Preset::kModern);
  CHECK(mixed.positions == Positions::kRope);
  CHECK(mixed.activation == Activation::kGelu);
}

TEST_CASE("the feed-forward width follows its rule", "[config]") {
  ModelConfig config;
  config.n_embed = 128;
  CHECK(config.ffn_size() == 512);
  config.activation = Activation::kSwiglu;
  CHECK(config.ffn_size() == 384);  // 8 * 128 / 3 = 341.3 -> 341 -> 6 * 64
  config.n_embed = 72;
  CHECK(config.ffn_size() == 192);  // 8 * 72 / 3 = 192, a multiple of 64 already
  config.ffn_width = 100;
  CHECK(config.ffn_size() == 100);
}

TEST_CASE("the vocabulary is padded to its multiple", "[config]") {
  ModelConfig config;
  config.vocab_size = 50257;
  CHECK(config.padded_vocab_size() == 50257);
  config.vocab_multiple = 128;
  CHECK(config.padded_vocab_size() == 50304);
  config.vocab_size = 50304;
  CHECK(config.padded_vocab_size() == 50304);
}

TEST_CASE("parameters are counted as the textbook sizes have them", "[config]") {
  const auto count = [](const char* name) {
    return parameter_count(load_run_config(kSourceDir / "configs" / name, {}).model);
  };
  CHECK(count("classic_13m.json") == 13'142'656);
  CHECK(count("classic_77m.json") == 77'031'552);
  CHECK(count("classic_406m.json") == 406'359'168);
  // GPT-2 small has 124,439,808 with 50257 ids; 47 more rows of 768.
  CHECK(count("gpt2_124m.json") == 124'439'808 + 47 * 768);
}

TEST_CASE("parameters of a small model are counted by hand", "[config]") {
  // C 4, H 2, L 1, T 3, V 5, F 8, swiglu, every bias, learned positions, untied.
  ModelConfig config = model_preset(Preset::kClassic);
  config.context_length = 3;
  config.n_embed = 4;
  config.n_head = 2;
  config.n_blocks = 1;
  config.vocab_size = 5;
  config.activation = Activation::kSwiglu;
  config.ffn_width = 8;
  config.qkv_bias = true;
  // embeddings 20 + 12; norms 3 * (4 + 4); q, k, v 3 * (16 + 4); proj 16 + 4; gate and up 2 * (32 +
  // 8); down 32 + 4; head 20 + 5.
  CHECK(parameter_count(config) == 20 + 12 + 24 + 60 + 20 + 80 + 36 + 25);
  // Matrices that multiply: 64 + 96 + 20 = 180. Attention: 6 * 1 * 4 * 3.
  CHECK(flops_per_token(config) == 6 * 180 + 72);
  // rms_norm has no bias; a tied head no matrix.
  config.norm = Norm::kRmsNorm;
  config.tie_embeddings = true;
  CHECK(parameter_count(config) == 20 + 12 + 12 + 60 + 20 + 80 + 36 + 5);
}

TEST_CASE("the length of a training is counted in whole steps", "[config]") {
  TrainConfig train;
  train.batch_size = 4;
  CHECK(train.total_steps(/*context_length=*/8, /*windows_per_epoch=*/10) == kDefaultSteps);
  train.tokens = 65;  // a step has 32
  CHECK(train.total_steps(8, 10) == 3);
  train.tokens = 64;
  CHECK(train.total_steps(8, 10) == 2);
  train.tokens = 0;
  train.epochs = 2;  // 20 windows, 4 per step
  CHECK(train.total_steps(8, 10) == 5);
  train.epochs = 0.01;
  CHECK(train.total_steps(8, 10) == 1);
  train.epochs = 0;
  train.steps = 7;
  CHECK(train.total_steps(8, 10) == 7);
}

TEST_CASE("the rules of the schedule's optional keys", "[config]") {
  ScheduleConfig schedule;
  CHECK(schedule.min_factor(3e-4) == 0.1);
  schedule.min_learning_rate = 1e-4;
  CHECK(schedule.min_factor(2e-4) == Approx(0.5));
  CHECK(schedule.resolved_decay_steps(200) == 200);
  schedule.name = ScheduleName::kWsd;
  CHECK(schedule.resolved_decay_steps(200) == 40);
  CHECK(schedule.resolved_decay_steps(3) == 1);
  schedule.decay_steps = 7;
  CHECK(schedule.resolved_decay_steps(200) == 7);
}

// ---------------------------------------------------------------- resolved configs

namespace {

/// A legal config in which each key differs from its default, as (key, JSON value) pairs.
const std::vector<std::pair<std::string, Json>>& other_values() {
  static const std::vector<std::pair<std::string, Json>> kValues = {
      {"seed", 7},
      {"run_dir", "/r"},
      {"init_from", "/runs/a"},
      {"device", "cpu"},
      {"threads", 3},
      {"data.train", "/t.txt"},
      {"data.validation", "/v.txt"},
      {"data.validation_fraction", 0.25},
      {"data.tokenizer", "byte"},
      {"data.sampling", "random"},
      {"data.format", "llmc"},
      {"data.tales_bytes", 5000},
      {"data.tales_seed", 9},
      {"model.preset", "gpt2"},
      {"model.context_length", 64},
      {"model.n_embed", 96},
      {"model.n_head", 2},
      {"model.n_kv_head", 2},
      {"model.n_shift_head", 1},
      {"model.n_blocks", 2},
      {"model.positions", "learned"},
      {"model.rope_base", 500.0},
      {"model.norm", "layer_norm"},
      {"model.norm_epsilon", 1e-6},
      {"model.activation", "gelu"},
      {"model.qk_norm", false},
      {"model.bias", true},
      {"model.qkv_bias", true},
      {"model.head_bias", true},
      {"model.tie_embeddings", false},
      {"model.dropout", 0.1},
      {"model.ffn_width", 100},
      {"model.ffn_multiplier", 3},
      {"model.vocab_size", 300},
      {"model.vocab_multiple", 64},
      {"model.attention", "reference"},
      {"optimizer.name", "muon"},
      {"optimizer.learning_rate", 2e-3},
      {"optimizer.matrix_learning_rate", 0.03},
      {"optimizer.matrix_precision", "fp32"},
      {"optimizer.momentum", 0.9},
      {"optimizer.beta1", 0.8},
      {"optimizer.beta2", 0.99},
      {"optimizer.epsilon", 1e-7},
      {"optimizer.weight_decay", 0.0},
      {"optimizer.grad_clip", 0.5},
      {"optimizer.frozen", "blocks.0.*"},
      {"optimizer.layer_decay", 0.75},
      {"schedule.name", "linear"},
      {"schedule.warmup_steps", 10},
      {"schedule.min_learning_rate", 1e-5},
      {"schedule.decay_steps", 50},
      {"train.steps", 60},
      {"train.tokens", 1000},
      {"train.epochs", 1.5},
      {"train.batch_size", 16},
      {"train.accumulation", 2},
      {"train.tokens_per_step", 8192},
      {"train.activation_checkpointing", true},
      {"train.cuda_graph", true},
      {"train.precision", "bf16"},
      {"train.eval_interval", 0},
      {"train.eval_tokens", 10},
      {"train.log_interval", 1},
      {"train.sample_interval", 5},
      {"train.sample_prompt", "x\n\"\u00e9"},
      {"train.sample_tokens", 9},
      {"train.max_minutes", 0.5},
      {"train.on_spike", "skip"},
      {"train.spike_z_score", 6.0},
      {"checkpoint.interval", 5},
      {"checkpoint.interval_minutes", 2.5},
      {"checkpoint.keep_last", 0},
      {"checkpoint.keep_best", false},
      {"logging.tensorboard", true},
      {"distributed.shard", "optimizer"},
      {"distributed.reduce_precision", "bf16"},
      {"distributed.bucket_megabytes", 7.5},
      {"distributed.check_interval", 50},
      {"distributed.timeout_seconds", 60.0},
  };
  return kValues;
}

Json as_file(const std::string& key, const Json& value) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return {{key, value}};
  return {{key.substr(0, dot), {{key.substr(dot + 1), value}}}};
}

Json value_at(const OrderedJson& json, const std::string& key) {
  std::string pointer = "/" + key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return Json(json.at(OrderedJson::json_pointer(pointer)));
}

std::set<std::string> keys_of(const OrderedJson& json) {
  std::set<std::string> keys;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) keys.insert(name);
    if (!value.is_object()) continue;
    for (const auto& [inner, unused] : value.items()) keys.insert(name + "." + inner);
  }
  return keys;
}

}  // namespace

TEST_CASE("every key is read, written and read back", "[config]") {
  std::set<std::string> tested;
  const RunConfig defaults;
  for (const auto& [key, value] : other_values()) {
    INFO(key);
    tested.insert(key);
    const RunConfig config = run_config_from_json(as_file(key, value), "test");
    const OrderedJson json = to_json(config);
    CHECK(value_at(json, key) == value);
    const Json reread = parse_json(dump_json(json), "test", FileRole::kConfig);
    CHECK(run_config_from_json(reread, "test") == config);
    if (key == "optimizer.name") continue;
    CHECK_FALSE(config == defaults);
    CHECK_FALSE(json == to_json(defaults));
  }
  CHECK(tested == keys_of(to_json(defaults)));
}

TEST_CASE("a resolved config round-trips whole, preset and all", "[config]") {
  RunConfig config = run_config_from_json(Json::object(), "test");
  CHECK(config == RunConfig{});
  for (const auto& [key, value] : other_values()) {
    if (key == "train.tokens" || key == "train.epochs" || key == "train.tokens_per_step") continue;
    if (key == "train.cuda_graph") continue;  // not with dropout
    Json json = Json(to_json(config));
    json.merge_patch(as_file(key, value));
    config = run_config_from_json(json, "test");
  }
  CHECK(run_config_from_json(Json(to_json(config)), "test") == config);
  // An explicit key wins over the stored preset, though "bias" comes after it.
  CHECK(config.model.preset == Preset::kGpt2);
  CHECK(config.model.head_bias);
}

TEST_CASE("a stored config with a foreign key is refused by origin and key", "[config]") {
  CHECK_THAT(config_error([] {
               run_config_from_json({{"extends", "a"}}, "run/config.json");
             }),
             ContainsSubstring("run/config.json: unknown key \"extends\""));
  CHECK_THAT(config_error([] {
               run_config_from_json({{"model", {{"wte", 1}}}}, "run");
             }),
             ContainsSubstring("model.wte"));
}

TEST_CASE("setting a key by --set: on a stored config changes that key only, or a preset's keys",
          "[config]") {
  RunConfig stored;
  stored.train.batch_size = 5;
  stored.run_dir = "/r";
  RunConfig expected = stored;
  expected.train.steps = 9;
  CHECK(override_run_config(stored, {"train.steps=9"}) == expected);
  CHECK(override_run_config(stored, {}) == stored);
  CHECK(override_run_config(stored, {"model.preset=classic"}).model.activation ==
        Activation::kRelu);
  CHECK_THROWS_AS(override_run_config(stored, {"model.n_head=3"}), ConfigError);
}

TEST_CASE("data.train may be a list of files with weights", "[config]") {
  const tril::testing::TempDir dir;
  const fs::path file = dir / "a.json";
  std::ofstream(file) << R"({"data": {"train": [{"file": "x.txt", "weight": 0.5}, "sub/y.txt",
                             {"file": "tales"}]}})";
  const RunConfig config = load_run_config(file, {});
  REQUIRE(config.data.train.files.size() == 3);
  CHECK(config.data.train.files[0] == WeightedFile{(dir / "x.txt").string(), 0.5});
  CHECK(config.data.train.files[1] == WeightedFile{(dir / "sub/y.txt").string(), 1});
  CHECK(config.data.train.files[2] == WeightedFile{kTales, 1});
  CHECK(run_config_from_json(Json(to_json(config)), "test") == config);
  CHECK(to_json(config)["data"]["train"][0].at("file") == (dir / "x.txt").string());
  CHECK(to_json(config)["data"]["train"][0].at("weight") == 0.5);

  const auto from_set = [](const std::string& value) {
    return load_run_config(std::nullopt, {"data.train=" + value}).data.train;
  };
  CHECK(from_set(R"([{"file": "/a.txt", "weight": 2}])").is_list);
  CHECK(from_set("/a.txt") == "/a.txt");
  CHECK(from_set("./2024") == (fs::current_path() / "2024").string());

  const auto refused = [&](const std::string& value) {
    try {
      from_set(value);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(refused("[]"), ContainsSubstring("The list has 0 entries"));
  CHECK_THAT(refused(R"([{"weight": 1}])"), ContainsSubstring("data.train[0]: the key \"file\""));
  CHECK_THAT(refused(R"(["/a.txt", {"file": "/b.txt", "wieght": 1}])"),
             ContainsSubstring("data.train[1]: unknown key \"wieght\""));
  CHECK_THAT(refused(R"([{"file": "/a.txt", "weight": 0}])"),
             ContainsSubstring("data.train[0].weight must be a number, greater than 0"));
  CHECK_THAT(refused(R"([{"file": "/a.txt", "weight": "2"}])"),
             ContainsSubstring("data.train[0].weight"));
  CHECK_THAT(refused(R"([{"file": "talse"}])"), ContainsSubstring("Did you mean \"tales\"?"));
  CHECK_THAT(refused("[5]"), ContainsSubstring("data.train[0] must be a path"));
}

TEST_CASE("a changed list of training files is shown whole on resume", "[config]") {
  RunConfig stored;
  stored.data.train = TrainFiles({{"/a.txt", 1}, {"/b.txt", 2}});
  RunConfig wanted = stored;
  wanted.data.train.files[1].weight = 3;
  const auto changes = compare_for_resume(stored, wanted);
  REQUIRE(changes.size() == 1);
  CHECK_THAT(changes[0].before, ContainsSubstring("\"weight\":2"));
  CHECK_THAT(changes[0].after, ContainsSubstring("\"weight\":3"));
}

TEST_CASE("on resume some keys may change and all others are refused by name", "[config]") {
  const std::set<std::string> may_change = {"run_dir",
                                            "distributed.shard",
                                            "distributed.bucket_megabytes",
                                            "distributed.check_interval",
                                            "distributed.timeout_seconds",
                                            "init_from",
                                            "device",
                                            "threads",
                                            "data.train",
                                            "data.validation",
                                            "data.tokenizer",
                                            "data.format",
                                            "train.steps",
                                            "train.tokens",
                                            "train.epochs",
                                            "init_from",
                                            "train.on_spike",
                                            "train.spike_z_score",
                                            "train.activation_checkpointing",
                                            "train.cuda_graph",
                                            "train.eval_interval",
                                            "train.eval_tokens",
                                            "train.log_interval",
                                            "train.sample_interval",
                                            "train.sample_prompt",
                                            "train.sample_tokens",
                                            "train.max_minutes",
                                            "train.on_spike",
                                            "train.spike_z_score",
                                            "checkpoint.interval",
                                            "checkpoint.interval_minutes",
                                            "checkpoint.keep_last",
                                            "checkpoint.keep_best",
                                            "logging.tensorboard"};
  const RunConfig stored;
  CHECK(compare_for_resume(stored, stored).empty());
  for (const auto& [key, value] : other_values()) {
    if (key == "optimizer.name") continue;
    INFO(key);
    // Written into the resolved config, so that a preset changes its own key only.
    Json json = Json(to_json(stored));
    json.merge_patch(as_file(key, value));
    const auto changes = compare_for_resume(stored, run_config_from_json(json, "test"));
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].key == key);
    CHECK(changes[0].allowed == (may_change.count(key) == 1));
    CHECK(changes[0].before != changes[0].after);
    CHECK(config_error([&] { require_allowed(changes, "runs/a"); }).empty() == changes[0].allowed);
  }
}

TEST_CASE("a refused resume has one line per differing key with both values", "[config]") {
  const RunConfig stored;
  const RunConfig wanted = override_run_config(
      stored, {"model.n_blocks=6", "model.dropout=0.1", "train.batch_size=16", "train.steps=5"});
  const std::string error =
      config_error([&] { require_allowed(compare_for_resume(stored, wanted), "runs/a"); });
  CHECK_THAT(error, ContainsSubstring("runs/a: "));
  CHECK_THAT(error, ContainsSubstring("\n  model.n_blocks: 4 in the run, 6 wanted"));
  CHECK_THAT(error, ContainsSubstring("\n  model.dropout: 0 in the run, 0.1 wanted"));
  CHECK_THAT(error, ContainsSubstring("\n  train.batch_size: 32 in the run, 16 wanted"));
  CHECK_THAT(error, !ContainsSubstring("train.steps"));
}

// ---------------------------------------------------------------- shipped files and documentation

TEST_CASE("every shipped config loads", "[config]") {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kSourceDir / "configs")) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().string());
    names.insert(entry.path().stem().string());
    const RunConfig config = load_run_config(entry.path(), {});
    CHECK(run_config_from_json(Json(to_json(config)), "test") == config);
    const std::string name = entry.path().stem().string();
    const bool has_gpt2_vocabulary = name.starts_with("classic_") || name.starts_with("gpt2_");
    CHECK((config.data.tokenizer == "gpt2") == has_gpt2_vocabulary);
    if (config.data.train != kTales) {
      CHECK(config.data.train.is(
          (kSourceDir / "data" / "tinyshakespeare.txt").lexically_normal().string()));
    }
  }
  for (const char* name : {"smoke",
                           "quickstart",
                           "shakespeare_char_cpu",
                           "shakespeare_char_fast",
                           "shakespeare_char",
                           "classic_13m",
                           "classic_77m",
                           "classic_406m",
                           "gpt2_124m",
                           "tales_llama"}) {
    INFO(name);
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("shakespeare_char_cpu is the widely known small setting", "[config]") {
  const RunConfig config =
      load_run_config(kSourceDir / "configs" / "shakespeare_char_cpu.json", {});
  CHECK(config.model.context_length == 64);
  CHECK(config.model.n_embed == 128);
  CHECK(config.model.n_head == 4);
  CHECK(config.model.n_blocks == 4);
  CHECK(config.model.activation == Activation::kGelu);
  CHECK(config.model.norm == Norm::kLayerNorm);
  CHECK(config.model.positions == Positions::kLearned);
  CHECK_FALSE(config.model.bias);
  CHECK_FALSE(config.model.qkv_bias);
  CHECK_FALSE(config.model.head_bias);
  CHECK(config.model.tie_embeddings);
  CHECK(config.model.dropout == 0);
  CHECK(config.train.batch_size == 12);
  CHECK(config.train.steps == 2000);
  CHECK(config.train.precision == Precision::kFp32);
  CHECK(config.optimizer.learning_rate == 1e-3);
  CHECK(config.optimizer.beta1 == 0.9);
  CHECK(config.optimizer.beta2 == 0.99);
  CHECK(config.optimizer.weight_decay == 0.1);
  CHECK(config.optimizer.grad_clip == 1.0);
  CHECK(config.schedule.warmup_steps == 100);
  CHECK(config.schedule.min_learning_rate == 1e-4);
  CHECK(config.data.sampling == Sampling::kRandom);
  CHECK(config.data.validation_fraction == 0.1);
}

TEST_CASE("configs/README.md is what the program writes", "[config]") {
  std::ifstream file(kSourceDir / "configs" / "README.md", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  CHECK(text == describe_config());
}

TEST_CASE("the description names every key", "[config]") {
  const std::string text = describe_config();
  for (const std::string& key : keys_of(to_json(RunConfig{}))) {
    const size_t dot = key.find('.');
    const std::string name = dot == std::string::npos ? key : key.substr(dot + 1);
    CHECK_THAT(text, ContainsSubstring("| `" + name + "` |"));
  }
}

// ---------------------------------------------------------------- helpers, and garbage

TEST_CASE("edit distance is counted by hand", "[config]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("Steps", "steps") == 0);
  CHECK(nearest("stps", {"tokens", "steps"}) == "steps");
  CHECK_FALSE(nearest("xyz", {"tokens", "steps"}));
  CHECK_FALSE(nearest("", {"a"}));
}

TEST_CASE("garbage never escapes as anything but a ConfigError", "[config]") {
  std::mt19937 random(1);  // the same sequence on every platform
  const auto pick = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const std::vector<std::string> pieces = {
      "{",          "}",         "[",          "]",          ":",
      ",",          "\"",        "null",       "true",       "-1",
      "0",          "8.5",       "1e999",      "-1e-999",    "99999999999999999999",
      "\"train\"",  "\"model\"", "\"steps\"",  "\"n_head\"", "\"extends\"",
      "\"a.json\"", "\"seed\"",  "\"preset\"", "\"data\"",   "\"\\u0000\"",
      "\xff",       "\\",        " ",          "nan"};
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const size_t n_pieces = pick(12);
    for (size_t j = 0; j < n_pieces; ++j) text += pieces[pick(pieces.size())];
    INFO(text);
    config_error(
        [&] { run_config_from_json(parse_json(text, "fuzz", FileRole::kConfig), "fuzz"); });
    config_error([&] { load_run_config(std::nullopt, {text}); });
    config_error([&] { load_run_config(std::nullopt, {"train.steps=" + text}); });
    config_error([&] { load_run_config(std::nullopt, {"data.train=" + text}); });
  }
  // Well-formed JSON with any value at any key.
  const std::vector<Json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1,
                                    1e300,
                                    -0.0,
                                    8.5,
                                    "",
                                    "x",
                                    "a/b",
                                    Json::array(),
                                    Json::object(),
                                    uint64_t{1} << 63,
                                    std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN(),
                                    "\xff",
                                    "\0x"};
  for (const auto& [key, unused] : other_values()) {
    for (const Json& value : values) {
      INFO(key << " = " << value.dump(-1, ' ', false, Json::error_handler_t::replace));
      config_error([&] { run_config_from_json(as_file(key, value), "fuzz"); });
    }
  }
}

}  // namespace tril
