// tril import, export, and training from imported weights, through the real program.

#include <cmath>
#include <cstring>

#include "cli/workspace.h"
#include "support/foreign.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

/// A folder as transformers would write it, of 256 ids, for the byte tokenizer.
void write_gpt2(const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<MadeTensor> tensors = {made("transformer.wte.weight", {256, 16}),
                                     made("transformer.wpe.weight", {32, 16}),
                                     made("transformer.ln_f.weight", {16}),
                                     made("transformer.ln_f.bias", {16})};
  for (const std::string block : {"transformer.h.0.", "transformer.h.1."}) {
    for (const std::string norm : {"ln_1", "ln_2"}) {
      tensors.push_back(made(block + norm + ".weight", {16}));
      tensors.push_back(made(block + norm + ".bias", {16}));
    }
    tensors.push_back(made(block + "attn.c_attn.weight", {16, 48}));
    tensors.push_back(made(block + "attn.c_attn.bias", {48}));
    tensors.push_back(made(block + "attn.c_proj.weight", {16, 16}));
    tensors.push_back(made(block + "attn.c_proj.bias", {16}));
    tensors.push_back(made(block + "mlp.c_fc.weight", {16, 64}));
    tensors.push_back(made(block + "mlp.c_fc.bias", {64}));
    tensors.push_back(made(block + "mlp.c_proj.weight", {64, 16}));
    tensors.push_back(made(block + "mlp.c_proj.bias", {16}));
  }
  write_made(folder / "model.safetensors", tensors);
  write_text(folder / "config.json", R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 16,
    "n_positions": 32, "n_layer": 2, "n_head": 2})");
  write_text(folder / "tokenizer.json", R"({"type": "byte", "version": 1})");
}

}  // namespace

TEST_CASE("imported weights generate, are evaluated, and go out again byte for byte",
          "[cli][interop]") {
  const Workspace w;
  write_gpt2(w / "gpt2");
  w.require("import gpt2 --out runs/g");
  CHECK(names_in(w / "runs/g/checkpoints") == std::vector<std::string>{"step_00000000"});
  const auto sample = w.json("generate runs/g --prompt abc --max-new-tokens 20 --json");
  CHECK(sample["samples"][0]["ids"].size() == 20);
  const auto result = w.json("evaluate runs/g --data text.txt --json");
  CHECK(result["loss"].get<double>() > 0);
  CHECK(result["loss_standard_error"].get<double>() > 0);
  const std::string no_text = refused(w.tril("evaluate runs/g"), 3);
  CHECK_THAT(no_text, ContainsSubstring("--data"));

  w.require("export runs/g --out out");
  CHECK(names_in(w / "out") == std::vector<std::string>{"config.json",
                                                        "model.safetensors",
                                                        "tokenizer.json",
                                                        "tokenizer_config.json",
                                                        "tril_tokenizer.json"});
  w.require("import out --out runs/g2");
  w.require("export runs/g2 --out out2");
  for (const std::string& name : names_in(w / "out")) {
    CAPTURE(name);
    CHECK(read_text(w / ("out/" + name)) == read_text(w / ("out2/" + name)));
  }
  CHECK(read_text(checkpoint_folder(w / "runs/g", 0) / "model.safetensors") ==
        read_text(checkpoint_folder(w / "runs/g2", 0) / "model.safetensors"));
  w.require("export runs/g --out g.gguf --format gguf --dtype q8_0");
  CHECK(read_text(w / "g.gguf").starts_with("GGUF"));
}

TEST_CASE("nothing is replaced and nothing is left behind by an import or export that fails",
          "[cli][interop]") {
  const Workspace w;
  write_gpt2(w / "gpt2");
  CHECK_THAT(refused(w.tril("import nowhere --out runs/a"), 4), ContainsSubstring("no such file"));
  CHECK_FALSE(fs::exists(w / "runs/a"));
  fs::remove(w / "gpt2/tokenizer.json");
  CHECK_THAT(refused(w.tril("import gpt2 --out runs/a"), 3), ContainsSubstring("--tokenizer"));
  CHECK_FALSE(fs::exists(w / "runs/a"));
  w.require("import gpt2 --out runs/a --tokenizer byte");
  CHECK_THAT(refused(w.tril("import gpt2 --out runs/a --tokenizer byte"), 2),
             ContainsSubstring("--overwrite"));
  w.require("import gpt2 --out runs/a --tokenizer byte --overwrite");

  w.require("export runs/a --out out");
  CHECK_THAT(refused(w.tril("export runs/a --out out"), 2), ContainsSubstring("--overwrite"));
  w.require("export runs/a --out out --overwrite");
  CHECK_THAT(refused(w.tril("export runs/a --out runs --overwrite"), 2),
             ContainsSubstring("no former export"));
  CHECK_THAT(refused(w.tril("export runs/a --out q --dtype q8_0"), 2), ContainsSubstring("GGUF"));
  // A run of the default config is `modern`: no format holds it.
  w.require("train --config tiny.json --run-dir runs/m");
  const std::string message = refused(w.tril("export runs/m --out m"), 2);
  CHECK_THAT(message, ContainsSubstring("model.qk_norm true"));
  CHECK_FALSE(fs::exists(w / "m"));
  CHECK_THAT(refused(w.tril("export runs/none --out m"), 4), ContainsSubstring("runs/none"));
}

TEST_CASE("training goes on from imported weights and resumes bit for bit", "[cli][interop]") {
  const Workspace w;
  write_gpt2(w / "gpt2");
  w.require("import gpt2 --out runs/g");
  CHECK_THAT(refused(w.tril("train --run-dir runs/g --resume"), 4),
             ContainsSubstring("weights only") && ContainsSubstring("init_from"));

  write_text(w / "tune.json", R"({
    "threads": 1, "init_from": "runs/g", "data": {"train": "text.txt"},
    "model": {"context_length": 16, "dropout": 0.1},
    "optimizer": {"learning_rate": 0.003}, "schedule": {"name": "constant", "warmup_steps": 0},
    "train": {"steps": 20, "batch_size": 4, "log_interval": 1, "eval_interval": 0},
    "checkpoint": {"interval": 10}})");
  w.require("train --config tune.json --run-dir runs/a");
  const RunLog log = read_metrics(w / "runs/a");
  CHECK(log.loss(20) < log.loss(1) - 0.5);
  const auto config = tril::Json::parse(read_text(w / "runs/a/config.json"));
  CHECK(config["model"]["n_embed"] == 16);  // from the weights
  CHECK(config["model"]["activation"] == "gelu_tanh");
  CHECK(config["model"]["context_length"] == 16);  // cropped

  w.require("train --config tune.json --run-dir runs/b --set train.steps=10");
  w.require("train --run-dir runs/b --resume --set train.steps=20");
  CHECK(read_text(checkpoint_folder(w / "runs/a", 20) / "model.safetensors") ==
        read_text(checkpoint_folder(w / "runs/b", 20) / "model.safetensors"));
  w.require("train --config tune.json --run-dir runs/b --resume --set train.steps=25");
}

TEST_CASE("weights that do not fit the model are refused key by key", "[cli][interop]") {
  const Workspace w;
  write_gpt2(w / "gpt2");
  w.require("import gpt2 --out runs/g");
  const auto train = [&](const std::string& sets) {
    return w.tril("train --config tiny.json --run-dir runs/x --set init_from=runs/g " + sets);
  };
  const std::string message = refused(train("--set model.norm=rms_norm"), 2);
  CHECK_THAT(message, ContainsSubstring("model.n_blocks: 2 in the weights, 1 wanted"));
  CHECK_THAT(message, ContainsSubstring("model.norm: \"layer_norm\" in the weights"));
  CHECK_FALSE(fs::exists(w / "runs/x"));
  CHECK_THAT(refused(train("--set model.n_blocks=2 --set model.context_length=64"), 2),
             ContainsSubstring("learned positions end there"));
  // Ids that mean other things: a character vocabulary where the weights have bytes.
  w.require("train --config tiny.json --run-dir runs/c");
  CHECK_THAT(refused(train("--set model.n_blocks=2 --set data.tokenizer=runs/c/tokenizer.json"), 3),
             ContainsSubstring("do not mean"));
  CHECK_THAT(
      refused(w.tril("train --config tiny.json --run-dir runs/x --set init_from=./nowhere"), 4),
      ContainsSubstring("nowhere"));
}

TEST_CASE("frozen parameters come out of training as they went in", "[cli][interop]") {
  const Workspace w;
  w.require("train --config tiny.json --run-dir runs/a");
  w.require(
      "train --config tiny.json --run-dir runs/b --set init_from=runs/a --set "
      "optimizer.frozen=token_embedding.*,blocks.*.ffn.* --set optimizer.layer_decay=0.5");
  const auto before =
      tril::SafetensorsFile::open(checkpoint_folder(w / "runs/a", 10) / "model.safetensors");
  const auto after =
      tril::SafetensorsFile::open(checkpoint_folder(w / "runs/b", 10) / "model.safetensors");
  for (const auto& info : before.tensors()) {
    const auto a = before.data(info);
    const auto b = after.data(*after.find(info.name));
    const bool frozen =
        info.name.starts_with("token_embedding.") || info.name.find(".ffn.") != std::string::npos;
    CAPTURE(info.name);
    CHECK(std::equal(a.begin(), a.end(), b.begin()) == frozen);
  }
  const std::string message = refused(
      w.tril("train --config tiny.json --run-dir runs/c --set optimizer.frozen=block.0.*"), 2);
  CHECK_THAT(message, ContainsSubstring("no parameter matches \"block.0.*\""));
  CHECK_FALSE(fs::exists(w / "runs/c"));
}

TEST_CASE("a vocabulary grows by rows that are the mean of the others", "[cli][interop]") {
  const Workspace w;
  w.require("train --config tiny.json --run-dir runs/c");
  const auto before =
      tril::SafetensorsFile::open(checkpoint_folder(w / "runs/c", 10) / "model.safetensors");
  const int64_t v = before.find("token_embedding.weight")->shape[0];
  w.require(
      "train --config tiny.json --run-dir runs/d --set init_from=runs/c --set model.vocab_size=20 "
      "--set train.steps=1 --set optimizer.learning_rate=1e-30 --set optimizer.weight_decay=0");
  const auto after =
      tril::SafetensorsFile::open(checkpoint_folder(w / "runs/d", 1) / "model.safetensors");
  const auto* info = after.find("token_embedding.weight");
  REQUIRE(info->shape == std::vector<int64_t>{20, 16});
  const auto floats = [](const tril::SafetensorsFile& file) {
    const auto bytes = file.data(*file.find("token_embedding.weight"));
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const auto old_rows = floats(before);
  const auto new_rows = floats(after);
  for (size_t i = 0; i < old_rows.size(); ++i) CHECK(new_rows[i] == Approx(old_rows[i]));
  for (size_t c = 0; c < 16; ++c) {
    double mean = 0;
    for (size_t r = 0; r < static_cast<size_t>(v); ++r) {
      mean += static_cast<double>(old_rows[r * 16 + c]) / static_cast<double>(v);
    }
    for (size_t r = static_cast<size_t>(v); r < 20; ++r) {
      CHECK(static_cast<double>(new_rows[r * 16 + c]) == Approx(mean).margin(1e-6));
    }
  }
}

TEST_CASE("prompts from a file, side by side, with log-probabilities", "[cli][generate]") {
  const Workspace w;
  w.require("train --config tiny.json --run-dir runs/c");
  write_text(w / "p.jsonl",
             "{\"prompt\": \"the cat\"}\n\n{\"prompt\": \"a dog sat on\", \"n\": 1}\n");
  const std::string common = " --max-new-tokens 12 --temperature 0.9 --seed 3 --json";
  const auto both = w.json("generate runs/c --prompts p.jsonl --samples 2 --logprobs 2" + common);
  REQUIRE(both["samples"].size() == 4);
  CHECK(both["samples"][1]["prompt"] == 0);
  CHECK(both["samples"][2]["prompt"] == 1);
  const auto alone = w.json("generate runs/c --samples 2" + common, {"--prompt", "a dog sat on"});
  CHECK(both["samples"][2]["ids"] == alone["samples"][0]["ids"]);
  CHECK(both["samples"][3]["text"] == alone["samples"][1]["text"]);
  const auto& logprobs = both["samples"][0]["logprobs"];
  REQUIRE(logprobs.size() == 12);
  CHECK(logprobs[0]["id"] == both["samples"][0]["ids"][0]);
  CHECK(logprobs[0]["logprob"].get<double>() <= 0);
  CHECK(logprobs[0]["top"].size() == 2);
  CHECK_FALSE(alone["samples"][0].contains("logprobs"));

  const auto forced = w.json("generate runs/c --logit-bias 3=1000" + common);
  CHECK(forced["samples"][0]["ids"] == tril::Json(std::vector<int>(12, 3)));
  for (const std::string format : {"bf16", "int8"}) {
    CHECK(w.json("generate runs/c --weights " + format + common)["samples"][0]["ids"].size() == 12);
  }
}

TEST_CASE("wrong options of generate are refused by name", "[cli][generate]") {
  const Workspace w;
  w.require("train --config tiny.json --run-dir runs/c");
  const auto message = [&](const std::string& options, int exit_code) {
    return refused(w.tril("generate runs/c " + options), exit_code);
  };
  CHECK_THAT(message("--logit-bias 3", 2), ContainsSubstring("ID=NUMBER"));
  CHECK_THAT(message("--logit-bias x=3", 2), ContainsSubstring("ID=NUMBER"));
  CHECK_THAT(message("--logit-bias 3=nan", 2), ContainsSubstring("finite"));
  CHECK_THAT(message("--logit-bias 99999=1", 2), ContainsSubstring("the tokenizer has ids"));
  CHECK_THAT(message("--logprobs 3", 2), ContainsSubstring("--json"));
  CHECK_THAT(message("--no-cache --weights int8", 2), ContainsSubstring("--no-cache"));
  write_text(w / "bad.jsonl", "{\"prompt\": \"the\"}\n{\"text\": 3}\n");
  CHECK_THAT(message("--prompts bad.jsonl --json", 3), ContainsSubstring("bad.jsonl line 2"));
  write_text(w / "empty.jsonl", "\n");
  CHECK_THAT(message("--prompts empty.jsonl --json", 3), ContainsSubstring("no prompt"));
  CHECK_THAT(message("--prompts none.jsonl --json", 3), ContainsSubstring("none.jsonl"));
}

TEST_CASE("multiple choice picks the ending that the model finds the most probable",
          "[cli][evaluate]") {
  const Workspace w;
  w.require("train --config tiny.json --run-dir runs/c --set train.steps=60");
  // Words of the training text against the same letters out of order.
  write_text(w / "q.jsonl",
             R"({"ctx": "the cat sat", "endings": ["on the mat", "tth n aeom"], "label": 0})"
             "\n"
             R"({"ctx": "a dog", "endings": ["ogdsat", "sat on", "nos at"], "label": "1"})"
             "\n");
  const auto result = w.json("evaluate runs/c --multiple-choice q.jsonl --json");
  CHECK(result["questions"] == 2);
  CHECK(result["accuracy"] == 1.0);
  CHECK(result["chance"].get<double>() == Approx((0.5 + 1.0 / 3) / 2));
  const auto plain = w.tril("evaluate runs/c --multiple-choice q.jsonl");
  CHECK(plain.exit_code == 0);
  CHECK_THAT(plain.out, ContainsSubstring("accuracy       1.0000"));

  const auto refuse = [&](const std::string& line) {
    write_text(w / "bad.jsonl", line);
    return refused(w.tril("evaluate runs/c --multiple-choice bad.jsonl"), 3);
  };
  CHECK_THAT(refuse(R"({"ctx": "the", "endings": ["a"], "label": 0})"),
             ContainsSubstring("bad.jsonl line 1: 1 endings"));
  CHECK_THAT(refuse(R"({"ctx": "the", "endings": ["a", "b"], "label": 2})"),
             ContainsSubstring("label"));
  CHECK_THAT(refuse(R"({"ctx": "the", "endings": ["a", "Q"], "label": 1})"),
             ContainsSubstring("line 1") && ContainsSubstring("'Q'"));
  CHECK_THAT(refuse("{"), ContainsSubstring("bad.jsonl line 1"));
  CHECK_THAT(refuse(""), ContainsSubstring("no question"));
}
