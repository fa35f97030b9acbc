// Import and export against what `transformers` computes (tests/golden/huggingface.json).

#include "support/catch.h"
#include "support/foreign.h"
#include "support/golden.h"
#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/generate/generator.h"
#include "tril/interop/export_model.h"
#include "tril/interop/import_model.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

const Json& cases() {
  static const Json kGolden = read_golden("huggingface");
  return kGolden.at("cases");
}

const Json& case_named(const std::string& name) {
  for (const Json& golden : cases()) {
    if (golden.at("name") == name) return golden;
  }
  throw std::runtime_error("no golden case " + name);
}

/// A tokenizer of as many characters as the golden models have ids.
CharTokenizer forty_characters() {
  std::string text;
  for (char c = '0'; c < '0' + 40; ++c) text += c;
  return CharTokenizer::from_text(text);
}

ImportedModel import_folder(const fs::path& folder) {
  return import_model(folder, ForeignFormat::kAuto, {});
}

torch::Tensor logits_of(GPT& model, const Json& golden) {
  const torch::NoGradGuard no_grad;
  const auto ids = golden.at("ids").get<std::vector<int64_t>>();
  return model->forward(torch::tensor(ids).unsqueeze(0))[0];
}

std::vector<int64_t> greedy(GPT& model, const Json& golden, size_t n, bool use_cache) {
  GenerateOptions options;
  options.max_new_tokens = static_cast<int64_t>(n);
  options.sampling.temperature = 0;
  options.use_cache = use_cache;
  return generate(model, forty_characters(), golden.at("ids").get<std::vector<int64_t>>(), options)
      .ids;
}

/// The message with which a folder is refused.
std::string refusal(const fs::path& folder) {
  try {
    import_folder(folder);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "accepted";
}

MadeTensor& named(std::vector<MadeTensor>& tensors, const std::string& name) {
  for (MadeTensor& t : tensors) {
    if (t.name == name) return t;
  }
  throw std::runtime_error("no tensor " + name);
}

}  // namespace

TEST_CASE("imported models give the logits and the greedy text of transformers",
          "[interop][golden]") {
  const TempDir dir;
  int i = 0;
  for (const Json& golden : cases()) {
    CAPTURE(golden.at("name").get<std::string>());
    const fs::path folder = dir / std::to_string(i++);
    write_huggingface_folder(folder, golden);
    ImportedModel imported = import_folder(folder);
    CHECK(imported.notices.empty());
    // 1e-4 is the promise; a transposed square matrix changes the first digit.
    CHECK(first_difference(
              logits_of(imported.model, golden), golden_tensor(golden.at("logits")), 1e-4) == "");
    const auto expected = golden.at("greedy").get<std::vector<int64_t>>();
    CHECK(greedy(imported.model, golden, expected.size(), /*use_cache=*/true) == expected);
    CHECK(greedy(imported.model, golden, 40, /*use_cache=*/false) ==
          std::vector<int64_t>(expected.begin(), expected.begin() + 40));
  }
}

TEST_CASE("an export holds the names and shapes of transformers, and comes back byte for byte",
          "[interop][golden]") {
  const TempDir dir;
  const CharTokenizer tokenizer = forty_characters();
  int i = 0;
  for (const Json& golden : cases()) {
    CAPTURE(golden.at("name").get<std::string>());
    const fs::path folder = dir / std::to_string(i++);
    write_huggingface_folder(folder / "in", golden);
    ImportedModel first = import_folder(folder / "in");
    export_huggingface(first.model, tokenizer, folder / "out", ExportType::kF32);

    const auto file = SafetensorsFile::open(folder / "out" / "model.safetensors");
    CHECK(file.tensors().size() == golden.at("tensors").size());
    for (const Json& entry : golden.at("tensors")) {
      const TensorInfo* info = file.find(entry.at(0).get<std::string>());
      CAPTURE(entry.dump());
      REQUIRE(info != nullptr);
      CHECK(info->shape == entry.at(1).get<std::vector<int64_t>>());
    }
    CHECK(file.metadata().at("format") == "pt");

    ImportedModel second = import_folder(folder / "out");
    export_huggingface(second.model, tokenizer, folder / "again", ExportType::kF32);
    for (const auto& entry : fs::directory_iterator(folder / "out")) {
      const auto name = entry.path().filename();
      CAPTURE(name.string());
      CHECK(read_text(entry.path()) == read_text(folder / "again" / name));
    }
    CHECK(logits_of(first.model, golden).equal(logits_of(second.model, golden)));
  }
}

TEST_CASE("tensor names with and without prefix, and mask buffers, make no difference",
          "[interop]") {
  const TempDir dir;
  const Json& golden = case_named("gpt2");
  write_huggingface_folder(dir / "a", golden);
  ImportedModel plain = import_folder(dir / "a");
  const torch::Tensor expected = logits_of(plain.model, golden);
  int i = 0;
  const auto same = [&](const ChangeFolder& change) {
    const fs::path folder = dir / std::to_string(i++);
    write_huggingface_folder(folder, golden, change);
    ImportedModel other = import_folder(folder);
    CHECK(logits_of(other.model, golden).equal(expected));
  };
  const std::string prefix = "transformer.";
  same([&](std::vector<MadeTensor>& tensors, Json&) {
    for (auto& t : tensors) t.name = t.name.substr(prefix.size());
  });
  same([&](std::vector<MadeTensor>& tensors, Json&) {  // mixed
    for (size_t k = 0; k < tensors.size(); k += 2) {
      tensors[k].name = tensors[k].name.substr(prefix.size());
    }
  });
  same([&](std::vector<MadeTensor>& tensors, Json&) {
    tensors.push_back(made("transformer.h.0.attn.bias", {1, 1, 4, 4}));
    tensors.push_back(made("transformer.h.1.attn.masked_bias", {1}));
  });
}

TEST_CASE("an output head that is absent, equal or different is understood", "[interop]") {
  const TempDir dir;
  const Json& golden = case_named("gpt2");
  const auto add_head = [](std::vector<MadeTensor>& tensors, float difference) {
    MadeTensor head = named(tensors, "transformer.wte.weight");
    head.name = "lm_head.weight";
    head.values[5] += difference;
    tensors.push_back(head);
  };
  write_huggingface_folder(dir / "absent", golden);
  ImportedModel absent = import_folder(dir / "absent");
  CHECK(absent.model->config().tie_embeddings);
  CHECK(absent.notices.empty());

  write_huggingface_folder(
      dir / "equal", golden, [&](auto& tensors, Json&) { add_head(tensors, 0); });
  ImportedModel equal = import_folder(dir / "equal");
  CHECK(equal.model->config().tie_embeddings);
  CHECK(equal.notices.empty());

  write_huggingface_folder(
      dir / "different", golden, [&](auto& tensors, Json&) { add_head(tensors, 0.5F); });
  ImportedModel different = import_folder(dir / "different");
  CHECK_FALSE(different.model->config().tie_embeddings);
  REQUIRE(different.notices.size() == 1);
  CHECK_THAT(different.notices[0], ContainsSubstring("lm_head.weight differs"));

  write_huggingface_folder(dir / "alone", golden, [&](auto& tensors, Json&) {
    add_head(tensors, 0);
    std::erase_if(tensors, [](const MadeTensor& t) { return t.name == "transformer.wte.weight"; });
  });
  CHECK_THAT(refusal(dir / "alone"), ContainsSubstring("missing: wte.weight"));

  write_huggingface_folder(
      dir / "untied", golden, [&](auto&, Json& config) { config["tie_word_embeddings"] = false; });
  CHECK_THAT(refusal(dir / "untied"), ContainsSubstring("missing: lm_head.weight"));
}

TEST_CASE("tensors that are missing, unknown or of another shape are listed together",
          "[interop]") {
  const TempDir dir;
  const Json& golden = case_named("gpt2");
  write_huggingface_folder(dir / "names", golden, [](auto& tensors, Json&) {
    std::erase_if(tensors, [](const MadeTensor& t) { return t.name.ends_with("h.1.ln_2.bias"); });
    tensors.push_back(made("transformer.h.0.extra", {2, 3}));
  });
  const std::string names = refusal(dir / "names");
  CHECK_THAT(names, ContainsSubstring("2 tensors do not fit"));
  CHECK_THAT(names, ContainsSubstring("missing: h.1.ln_2.bias"));
  CHECK_THAT(names, ContainsSubstring("unknown: transformer.h.0.extra (2, 3)"));

  write_huggingface_folder(dir / "shape", golden, [](auto& tensors, Json&) {
    named(tensors, "transformer.h.0.attn.c_attn.weight") =
        made("transformer.h.0.attn.c_attn.weight", {48, 16});
  });
  CHECK_THAT(refusal(dir / "shape"), ContainsSubstring("the file has (48, 16), the config gives"));

  // A config that claims far more than the file holds takes no memory.
  write_huggingface_folder(dir / "huge", golden, [](auto&, Json& config) {
    config["n_embd"] = 65536;
    config["n_head"] = 2;
  });
  CHECK_THAT(refusal(dir / "huge"), ContainsSubstring("the files hold"));

  write_huggingface_folder(dir / "twice", golden, [](auto& tensors, Json&) {
    tensors.push_back(made("wte.weight", {40, 16}));
  });
  CHECK_THAT(refusal(dir / "twice"), ContainsSubstring("there twice"));
}

TEST_CASE("shards are read as their index says, and only from their folder", "[interop]") {
  const TempDir dir;
  const Json& golden = case_named("gpt2");
  write_huggingface_folder(dir / "whole", golden);
  ImportedModel whole = import_folder(dir / "whole");

  const fs::path folder = dir / "shards";
  fs::create_directories(folder);
  write_text(folder / "config.json", golden.at("config").dump());
  std::vector<MadeTensor> tensors = golden_tensors(golden);
  const auto half = tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() / 2);
  write_made(folder / "model-00001-of-00002.safetensors", {tensors.begin(), half});
  write_made(folder / "model-00002-of-00002.safetensors", {half, tensors.end()});
  Json index;
  for (auto t = tensors.begin(); t != tensors.end(); ++t) {
    index["weight_map"][t->name] =
        t < half ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  write_text(folder / "model.safetensors.index.json", index.dump());
  ImportedModel shards = import_folder(folder);
  CHECK(logits_of(shards.model, golden).equal(logits_of(whole.model, golden)));

  index["weight_map"][tensors[0].name] = "../whole/model.safetensors";
  write_text(folder / "model.safetensors.index.json", index.dump());
  CHECK_THAT(refusal(folder), ContainsSubstring("no file name"));
}

TEST_CASE("half precision weights are converted by value", "[interop]") {
  const TempDir dir;
  const Json& golden = case_named("gpt2");
  write_huggingface_folder(dir / "f32", golden);
  ImportedModel full = import_folder(dir / "f32");
  for (const ExportType type : {ExportType::kF16, ExportType::kBf16}) {
    const fs::path out = dir / std::string(enum_name(type));
    export_huggingface(full.model, forty_characters(), out, type);
    ImportedModel half = import_folder(out);
    const torch::ScalarType dtype = type == ExportType::kF16 ? torch::kFloat16 : torch::kBFloat16;
    const auto original = full.model->named_parameters();
    for (const auto& item : half.model->named_parameters()) {
      CAPTURE(item.key());
      CHECK(item.value().equal(original[item.key()].to(dtype).to(torch::kFloat32)));
    }
  }
  CHECK_THROWS_AS(export_huggingface(full.model, forty_characters(), dir / "q", ExportType::kQ8_0),
                  ConfigError);
  const torch::NoGradGuard no_grad;
  full.model->final_norm->weight.fill_(1e6);
  CHECK_THROWS_AS(
      export_huggingface(full.model, forty_characters(), dir / "over", ExportType::kF16),
      CheckpointError);
  CHECK_FALSE(fs::exists(dir / "over"));
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    CHECK_FALSE(entry.path().filename().string().starts_with("."));  // nothing half-written
  }
}

TEST_CASE("padding rows stay at home and biases come as zeros", "[interop]") {
  const TempDir dir;
  ModelConfig config = tiny_config(Preset::kGpt2);
  config.vocab_size = 40;
  config.vocab_multiple = 64;
  config.bias = false;
  config.qkv_bias = false;
  GPT model = tiny_model(config);
  const ExportReport report =
      export_huggingface(model, forty_characters(), dir / "out", ExportType::kF32);
  REQUIRE(report.notices.size() == 2);
  const auto file = SafetensorsFile::open(dir / "out" / "model.safetensors");
  CHECK(file.find("transformer.wte.weight")->shape == std::vector<int64_t>{40, 16});
  ImportedModel back = import_folder(dir / "out");
  CHECK(back.model->config().bias);
  const torch::NoGradGuard no_grad;
  const torch::Tensor ids = tiny_ids(2, 8, 40);
  CHECK(first_difference(back.model->forward(ids), model->forward(ids), kFp32Tolerance) == "");
}

TEST_CASE("what is no foreign model is refused with what to do", "[interop]") {
  const TempDir dir;
  CHECK_THAT(refusal(dir / "nothing"), ContainsSubstring("no such file"));
  CHECK_THAT(refusal(dir.path()), ContainsSubstring("no config.json"));
  const Json& golden = case_named("gpt2");
  write_text(dir / "config.json", golden.at("config").dump());
  CHECK_THAT(refusal(dir.path()), ContainsSubstring("no model.safetensors"));
  write_text(dir / "pytorch_model.bin", "PK\x03\x04");
  CHECK_THAT(refusal(dir.path()), ContainsSubstring("scripts/convert_pt.py"));
  write_text(dir / "model.safetensors", "version https://git-lfs.github.com/spec/v1");
  CHECK_THAT(refusal(dir.path()), ContainsSubstring("Git LFS pointer"));
  write_text(dir / "ckpt.pt", "PK\x03\x04 and so on");
  CHECK_THAT(refusal(dir / "ckpt.pt"), ContainsSubstring("PyTorch"));
  write_made(dir / "odd.safetensors", {made("a", {2})});
  CHECK_THAT(refusal(dir / "odd.safetensors"), ContainsSubstring("neither nanoGPT's"));
}
