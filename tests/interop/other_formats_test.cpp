// nanoGPT's, train-llm-from-scratch's and llm.c's weights against a Hugging Face folder of the same
// numbers.

#include <cstring>

#include "support/catch.h"
#include "support/foreign.h"
#include "support/golden.h"
#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/tensor_matchers.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/interop/export_model.h"
#include "tril/interop/import_model.h"
#include "tril/tokenizer/byte_tokenizer.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

Json gpt2_case() {
  return read_golden("huggingface").at("cases").at(0);
}

bool is_matrix_in_out(const std::string& name) {
  return name.ends_with("c_attn.weight") || name.ends_with("c_proj.weight") ||
         name.ends_with("c_fc.weight");
}

/// (in, out) -> (out, in)
MadeTensor transposed(const MadeTensor& t) {
  MadeTensor result{t.name, {t.shape[1], t.shape[0]}, std::vector<float>(t.values.size())};
  const auto rows = static_cast<size_t>(t.shape[0]);
  const auto columns = static_cast<size_t>(t.shape[1]);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) result.values[c * rows + r] = t.values[r * columns + c];
  }
  return result;
}

/// The golden GPT-2 with nanoGPT's layout.
std::vector<MadeTensor> nanogpt_tensors() {
  std::vector<MadeTensor> tensors;
  for (const MadeTensor& t : golden_tensors(gpt2_case())) {
    tensors.push_back(is_matrix_in_out(t.name) ? transposed(t) : t);
  }
  return tensors;
}

torch::Tensor logits_of(GPT& model) {
  const torch::NoGradGuard no_grad;
  const auto ids = gpt2_case().at("ids").get<std::vector<int64_t>>();
  return model->forward(torch::tensor(ids).unsqueeze(0))[0];
}

torch::Tensor golden_logits() {
  return golden_tensor(gpt2_case().at("logits"));
}

std::string import_refusal(const fs::path& path, const std::vector<std::string>& sets = {}) {
  try {
    import_model(path, ForeignFormat::kAuto, sets);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

void append(std::string& bytes, const std::vector<float>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

}  // namespace

TEST_CASE("a nanoGPT checkpoint gives the logits of its numbers", "[interop]") {
  const TempDir dir;
  auto tensors = nanogpt_tensors();
  MadeTensor head = tensors[0];  // nanoGPT's files hold the tied matrix twice
  head.name = "lm_head.weight";
  tensors.push_back(head);
  for (auto& t : tensors) t.name = "_orig_mod." + t.name;
  write_made(dir / "n.safetensors", tensors, {{"model_args", R"({"n_head": 2, "n_layer": 2})"}});
  ImportedModel imported =
      import_model(dir / "n.safetensors", ForeignFormat::kAuto, {"model.activation=gelu_tanh"});
  CHECK(imported.format == ForeignFormat::kNanoGpt);
  CHECK(imported.model->config().tie_embeddings);
  CHECK(first_difference(logits_of(imported.model), golden_logits(), 1e-4) == "");

  // Without the setting, nanoGPT's own activation, and a word about it.
  imported = import_model(dir / "n.safetensors", ForeignFormat::kAuto, {});
  CHECK(imported.model->config().activation == Activation::kGelu);
  REQUIRE(imported.notices.size() == 1);
  CHECK_THAT(imported.notices[0], ContainsSubstring("gelu_tanh"));

  // The number of heads is in no shape.
  write_made(dir / "no_args.safetensors", tensors);
  CHECK_THAT(import_refusal(dir / "no_args.safetensors"),
             ContainsSubstring("--set model.n_head=N"));
  imported = import_model(dir / "no_args.safetensors",
                          ForeignFormat::kAuto,
                          {"model.n_head=2", "model.activation=gelu_tanh"});
  CHECK(first_difference(logits_of(imported.model), golden_logits(), 1e-4) == "");
  CHECK_THAT(import_refusal(dir / "no_args.safetensors", {"model.n_head=2", "train.steps=3"}),
             ContainsSubstring("keys of the model only"));
}

TEST_CASE("a nanoGPT checkpoint without biases is read as such", "[interop]") {
  const TempDir dir;
  auto tensors = nanogpt_tensors();
  std::erase_if(tensors, [](const MadeTensor& t) { return t.name.ends_with(".bias"); });
  write_made(dir / "n.safetensors", tensors, {{"model_args", R"({"n_head": 2})"}});
  ImportedModel imported = import_model(dir / "n.safetensors", ForeignFormat::kNanoGpt, {});
  CHECK_FALSE(imported.model->config().bias);
  CHECK_FALSE(imported.model->config().qkv_bias);
}

TEST_CASE("train-llm-from-scratch's per-head weights keep their layout", "[interop]") {
  const TempDir dir;
  // Heads are our own layout too: each tensor must arrive under our name, unchanged.
  std::vector<MadeTensor> tensors = {made("token_embed.weight", {40, 16}),
                                     made("position_embed.weight", {24, 16}),
                                     made("pos_idxs", {24}),
                                     made("layer_norm.weight", {16}),
                                     made("layer_norm.bias", {16}),
                                     made("lm_head.weight", {40, 16}),
                                     made("lm_head.bias", {40})};
  for (const std::string block : {"attn_blocks.0.", "attn_blocks.1."}) {
    for (const std::string head : {"0", "1", "2", "3"}) {
      for (const std::string part : {"key", "query", "value"}) {
        tensors.push_back(made(block + "attn.heads." + head + "." + part + ".weight", {4, 16}));
      }
      tensors.push_back(made(block + "attn.heads." + head + ".tril", {24, 24}));
    }
    for (const std::string name : {"ln1", "ln2"}) {
      tensors.push_back(made(block + name + ".weight", {16}));
      tensors.push_back(made(block + name + ".bias", {16}));
    }
    tensors.push_back(made(block + "attn.proj.weight", {16, 16}));
    tensors.push_back(made(block + "attn.proj.bias", {16}));
    tensors.push_back(made(block + "mlp.hidden.weight", {64, 16}));
    tensors.push_back(made(block + "mlp.hidden.bias", {64}));
    tensors.push_back(made(block + "mlp.proj.weight", {16, 64}));
    tensors.push_back(made(block + "mlp.proj.bias", {16}));
  }
  write_made(dir / "t.safetensors", tensors);
  ImportedModel imported = import_model(dir / "t.safetensors", ForeignFormat::kAuto, {});
  CHECK(imported.format == ForeignFormat::kTlfs);
  const ModelConfig& config = imported.model->config();
  CHECK(config.n_head == 4);
  CHECK(config.n_blocks == 2);
  CHECK(config.context_length == 24);
  CHECK(config.head_bias);
  CHECK_FALSE(config.tie_embeddings);
  const auto ours = imported.model->named_parameters();
  const auto check = [&](const std::string& our_name,
                         const std::string& their_name,
                         const std::vector<int64_t>& shape) {
    CAPTURE(our_name);
    const auto values = formula_values(their_name, shape);
    CHECK(ours[our_name].equal(torch::tensor(values).view(shape)));
  };
  check("blocks.1.attn.heads.2.key.weight", "attn_blocks.1.attn.heads.2.key.weight", {4, 16});
  check("blocks.0.attn.heads.3.query.weight", "attn_blocks.0.attn.heads.3.query.weight", {4, 16});
  check("blocks.0.attn.heads.0.value.weight", "attn_blocks.0.attn.heads.0.value.weight", {4, 16});
  check("blocks.1.attn.proj.weight", "attn_blocks.1.attn.proj.weight", {16, 16});
  check("blocks.1.ffn.up.weight", "attn_blocks.1.mlp.hidden.weight", {64, 16});
  check("blocks.0.ffn.down.bias", "attn_blocks.0.mlp.proj.bias", {16});
  check("final_norm.weight", "layer_norm.weight", {16});
  check("lm_head.bias", "lm_head.bias", {40});
}

TEST_CASE("an llm.c model gives the logits of its numbers", "[interop]") {
  const TempDir dir;
  const auto tensors = nanogpt_tensors();
  const auto values = [&](const std::string& name) -> const std::vector<float>& {
    for (const MadeTensor& t : tensors) {
      if (t.name == "transformer." + name) return t.values;
    }
    throw std::runtime_error("no tensor " + name);
  };
  std::vector<int32_t> header = {20240326, 3, 256, 40, 2, 2, 16, 64};
  header.resize(256, 0);
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  std::vector<float> wte = values("wte.weight");
  wte.resize(64 * 16, 123.0F);  // padding rows, which must not be read
  append(bytes, wte);
  append(bytes, values("wpe.weight"));
  for (const std::string name : {"ln_1.weight",
                                 "ln_1.bias",
                                 "attn.c_attn.weight",
                                 "attn.c_attn.bias",
                                 "attn.c_proj.weight",
                                 "attn.c_proj.bias",
                                 "ln_2.weight",
                                 "ln_2.bias",
                                 "mlp.c_fc.weight",
                                 "mlp.c_fc.bias",
                                 "mlp.c_proj.weight",
                                 "mlp.c_proj.bias"}) {
    for (const std::string block : {"h.0.", "h.1."}) append(bytes, values(block + name));
  }
  append(bytes, values("ln_f.weight"));
  append(bytes, values("ln_f.bias"));
  write_text(dir / "m.bin", bytes);
  ImportedModel imported = import_model(dir / "m.bin", ForeignFormat::kAuto, {});
  CHECK(imported.format == ForeignFormat::kLlmc);
  CHECK(first_difference(logits_of(imported.model), golden_logits(), 1e-4) == "");
  write_text(dir / "cut.bin", bytes.substr(0, bytes.size() - 1));
  CHECK_THAT(import_refusal(dir / "cut.bin"), ContainsSubstring("truncated"));
}

namespace {

/// Where a tensor's data begins in the data area of a GGUF file: found by its name in the table.
uint64_t gguf_offset(const std::string& file, const std::string& name) {
  std::string key(8, '\0');
  key[0] = static_cast<char>(name.size());
  key += name;
  const size_t at = file.find(key) + key.size();
  uint32_t n_dims = 0;
  std::memcpy(&n_dims, file.data() + at, 4);
  uint64_t offset = 0;
  std::memcpy(&offset, file.data() + at + 4 + 8 * n_dims + 4, 8);
  return offset;
}

/// n numbers of an F32 tensor. The data area's place is known from its end: the last tensor,
/// output_norm.bias, has 16 numbers.
std::vector<float> gguf_values(const std::string& file, const std::string& name, size_t n) {
  const size_t data_begin =
      file.size() - 16 * sizeof(float) - static_cast<size_t>(gguf_offset(file, "output_norm.bias"));
  std::vector<float> values(n);
  std::memcpy(values.data(), file.data() + data_begin + gguf_offset(file, name), n * sizeof(float));
  return values;
}

}  // namespace

TEST_CASE("a GGUF file holds the matrices as llama.cpp multiplies them", "[interop]") {
  const TempDir dir;
  ModelConfig config = tiny_config(Preset::kGpt2);
  config.vocab_size = 256;
  GPT model = tiny_model(config);
  export_gguf(model, *make_byte_tokenizer(), dir / "m.gguf", ExportType::kF32, "tiny");
  const std::string file = read_text(dir / "m.gguf");
  const auto attn = model->blocks[0]->as<BlockImpl>()->attn;
  const torch::Tensor qkv = attn->packed_weight().detach().contiguous();
  const auto values = gguf_values(file, "blk.0.attn_qkv.weight", 3 * 16 * 16);
  CHECK(torch::tensor(values).view({48, 16}).equal(qkv));
  CHECK(file.find("gpt2.attention.head_count") != std::string::npos);
  CHECK(file.find("rwkv") != std::string::npos);

  // Vectors stay f32; matrices with rows of 16 have no q8_0 block: said, not hidden.
  const ExportReport report =
      export_gguf(model, *make_byte_tokenizer(), dir / "q.gguf", ExportType::kQ8_0, "tiny");
  REQUIRE(report.notices.size() == 1);
  CHECK_THAT(report.notices[0], ContainsSubstring("no multiple of 32"));
}
