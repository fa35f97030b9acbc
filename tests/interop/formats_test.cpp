// The Torch-free parts: foreign configs, llm.c headers, GGUF, vocabularies for other programs.

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/interop/gguf_writer.h"
#include "tril/interop/huggingface_config.h"
#include "tril/interop/llmc.h"
#include "tril/interop/tensor_rules.h"
#include "tril/interop/tokenizer_export.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"
#include "tril/tokenizer/learned_tokenizer.h"

using namespace tril;
using namespace tril::testing;

namespace {

Json gpt2_json() {
  return {{"model_type", "gpt2"},
          {"n_embd", 12},
          {"n_head", 3},
          {"n_layer", 2},
          {"n_positions", 20},
          {"vocab_size", 50}};
}

Json llama_json() {
  return {{"model_type", "llama"},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"num_hidden_layers", 2},
          {"max_position_embeddings", 32},
          {"vocab_size", 50}};
}

std::string refusal(const Json& json) {
  try {
    read_huggingface_config(json, "config.json");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with_value(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return refusal(json);
}

}  // namespace

TEST_CASE("a GPT-2 config is read with GPT-2's defaults", "[interop]") {
  const ForeignConfig foreign = read_huggingface_config(gpt2_json(), "config.json");
  const ModelConfig& m = foreign.model;
  CHECK_FALSE(foreign.is_llama);
  CHECK(m.preset == Preset::kGpt2);
  CHECK(m.n_embed == 12);
  CHECK(m.n_head == 3);
  CHECK(m.n_blocks == 2);
  CHECK(m.context_length == 20);
  CHECK(m.vocab_size == 50);
  CHECK(m.ffn_size() == 48);
  CHECK(m.activation == Activation::kGeluTanh);
  CHECK(m.norm_epsilon == 1e-5);
  CHECK(m.tie_embeddings);
  CHECK(m.bias);
  CHECK(m.qkv_bias);
  CHECK_FALSE(m.head_bias);
  CHECK(m.dropout == 0);
}

TEST_CASE("flags of a foreign config are honoured", "[interop]") {
  Json json = gpt2_json();
  json["activation_function"] = "gelu";
  json["layer_norm_epsilon"] = 1e-6;
  json["n_inner"] = 40;
  json["tie_word_embeddings"] = false;
  json["reorder_and_upcast_attn"] = true;  // the same result in exact arithmetic: said, not refused
  json["attn_pdrop"] = 0.1;
  const ForeignConfig foreign = read_huggingface_config(json, "config.json");
  CHECK(foreign.model.activation == Activation::kGelu);
  CHECK(foreign.model.norm_epsilon == 1e-6);
  CHECK(foreign.model.ffn_size() == 40);
  CHECK_FALSE(foreign.model.tie_embeddings);
  CHECK(foreign.model.dropout == 0);
  REQUIRE(foreign.notices.size() == 1);
  CHECK_THAT(foreign.notices[0], ContainsSubstring("reorder_and_upcast_attn"));
}

TEST_CASE("what a foreign config asks for and tril has not is refused by name", "[interop]") {
  const auto gpt2 = [](const std::string& key, const Json& value) {
    const std::string message = with_value(gpt2_json(), key, value);
    CHECK_THAT(message, ContainsSubstring("config.json: " + key));
    return message;
  };
  CHECK_THAT(gpt2("activation_function", "mish"), ContainsSubstring("gelu_new"));
  gpt2("scale_attn_by_inverse_layer_idx", true);
  gpt2("scale_attn_weights", false);
  gpt2("add_cross_attention", true);
  gpt2("quantization_config", {{"bits", 4}});
  gpt2("n_embd", 0);
  gpt2("n_embd", 1e30);
  gpt2("n_embd", "768");
  gpt2("n_embd", 12.5);
  gpt2("n_layer", 1'000'000'000);
  gpt2("vocab_size", -1);
  gpt2("layer_norm_epsilon", 0);
  gpt2("tie_word_embeddings", 1);
  CHECK_THAT(with_value(gpt2_json(), "n_head", 5), ContainsSubstring("no multiple of 5 heads"));
  CHECK_THAT(with_value(gpt2_json(), "model_type", "gpt_neo"), ContainsSubstring("gpt2, llama"));
  Json no_type = gpt2_json();
  no_type.erase("model_type");
  CHECK_THAT(refusal(no_type), ContainsSubstring("model_type is nothing"));
  CHECK_THAT(refusal(Json::array()), ContainsSubstring("expected a JSON object"));

  const auto llama = [](const std::string& key, const Json& value) {
    CHECK_THAT(with_value(llama_json(), key, value), ContainsSubstring(key));
  };
  llama("hidden_act", "gelu");
  llama("head_dim", 8);
  llama("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}});
  llama("rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 10000.0}});
  llama("mlp_bias", true);
  llama("pretraining_tp", 2);
  llama("partial_rotary_factor", 0.5);
  Json mistral = llama_json();
  mistral["model_type"] = "mistral";
  CHECK_THAT(with_value(mistral, "sliding_window", 4096), ContainsSubstring("sliding_window"));
}

TEST_CASE("a Llama config is read in its old and new forms", "[interop]") {
  Json json = llama_json();
  json["rms_norm_eps"] = 1e-6;
  json["rope_theta"] = 500000.0;
  ForeignConfig foreign = read_huggingface_config(json, "config.json");
  CHECK(foreign.is_llama);
  CHECK(foreign.model.positions == Positions::kRope);
  CHECK(foreign.model.norm == Norm::kRmsNorm);
  CHECK(foreign.model.activation == Activation::kSwiglu);
  CHECK(foreign.model.ffn_size() == 24);
  CHECK(foreign.model.rope_base == 500000.0);
  CHECK_FALSE(foreign.model.tie_embeddings);
  CHECK_FALSE(foreign.model.qk_norm);
  CHECK_FALSE(foreign.model.bias);
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 250.0}};
  foreign = read_huggingface_config(json, "config.json");
  CHECK(foreign.model.rope_base == 250.0);
  json["max_position_embeddings"] = 131072;
  foreign = read_huggingface_config(json, "config.json");
  CHECK(foreign.model.context_length == 4096);  // no weights there: a shorter one is a choice
  REQUIRE(foreign.notices.size() == 1);
  CHECK_THAT(foreign.notices[0], ContainsSubstring("131072"));
}

TEST_CASE("a model that a format cannot hold is refused with every reason", "[interop]") {
  const auto message = [](const ModelConfig& config, ExportFormat format) {
    try {
      plan_export(config, format);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("fits");
  };
  ModelConfig modern = model_preset(Preset::kModern);
  const std::string reason = message(modern, ExportFormat::kHuggingFace);
  CHECK_THAT(reason, ContainsSubstring("model.positions rope (it has learned)"));
  CHECK_THAT(reason, ContainsSubstring("model.qk_norm true"));
  CHECK_THAT(reason, ContainsSubstring("model.activation relu_squared (it has swiglu)"));
  CHECK_THAT(message(model_preset(Preset::kClassic), ExportFormat::kHuggingFace),
             ContainsSubstring("model.head_bias true"));
  CHECK(message(model_preset(Preset::kGpt2), ExportFormat::kHuggingFace) == "fits");
  CHECK(message(model_preset(Preset::kGpt2), ExportFormat::kGguf) == "fits");
  ModelConfig gelu = model_preset(Preset::kGpt2);
  gelu.activation = Activation::kGelu;
  CHECK(message(gelu, ExportFormat::kHuggingFace) == "fits");
  CHECK_THAT(message(gelu, ExportFormat::kGguf),
             ContainsSubstring("model.activation gelu (it has gelu_tanh)"));
  modern.qk_norm = false;
  modern.activation = Activation::kSwiglu;
  CHECK(message(modern, ExportFormat::kHuggingFace) == "fits");
  CHECK(plan_export(modern, ExportFormat::kGguf).is_llama);
  ModelConfig shifted = model_preset(Preset::kGpt2);
  shifted.n_shift_head = modern.n_shift_head = 1;
  for (const ModelConfig& config : {shifted, modern}) {
    CHECK_THAT(message(config, ExportFormat::kHuggingFace),
               ContainsSubstring("model.n_shift_head 1 (it has none)"));
  }
}

TEST_CASE("biases that a model lacks are planned as zeros where the format has them", "[interop]") {
  ModelConfig config = model_preset(Preset::kGpt2);
  CHECK_FALSE(plan_export(config, ExportFormat::kHuggingFace).adds_zero_biases);
  config.bias = false;
  config.qkv_bias = false;
  const ExportPlan plan = plan_export(config, ExportFormat::kHuggingFace);
  CHECK(plan.adds_zero_biases);
  CHECK(plan.model.bias);
  CHECK(plan.model.qkv_bias);
}

TEST_CASE("every parameter is in exactly one rule, whatever the naming", "[interop]") {
  ModelConfig config = model_preset(Preset::kGpt2);
  config.n_head = 3;
  config.n_embed = 12;
  config.n_blocks = 2;
  config.vocab_size = 10;
  config.tie_embeddings = false;
  for (const Naming naming : {Naming::kHuggingFaceGpt2, Naming::kNanoGpt, Naming::kGgufGpt2}) {
    std::set<std::string> ours;
    std::set<std::string> theirs;
    size_t n = 0;
    for (const TensorRule& rule : tensor_rules(naming, config)) {
      CHECK(theirs.insert(rule.foreign).second);
      for (const std::string& name : rule.ours) CHECK(ours.insert(name).second);
      n += rule.ours.size();
    }
    // wte, wpe, head, final norm: 5; per block two norms 4, qkv 2 * 9, proj 2, ffn 4.
    CHECK(n == 5 + 2 * (4 + 18 + 2 + 4));
  }
  CHECK(without_prefix("module._orig_mod.transformer.h.0.x") == "h.0.x");
  CHECK(is_foreign_buffer(Naming::kHuggingFaceGpt2, "h.0.attn.bias"));
  CHECK(is_foreign_buffer(Naming::kHuggingFaceGpt2, "h.0.attn.masked_bias"));
  CHECK_FALSE(is_foreign_buffer(Naming::kHuggingFaceGpt2, "h.0.attn.c_attn.bias"));
}

namespace {

/// A header of llm.c and as many bytes of zeros as its sizes ask for, plus `extra`.
std::string llmc_file(std::vector<int32_t> header, int64_t extra = 0) {
  header.resize(256, 0);
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  const int64_t t = header[2], n = header[4], c = header[6], v = header[7];
  const int64_t elements = v * c + t * c + n * (12 * c * c + 13 * c) + 2 * c;
  bytes.append(static_cast<size_t>(elements * (header[1] == 3 ? 4 : 2) + extra), '\0');
  return bytes;
}

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("the tensors of an llm.c model are found where its writer puts them", "[interop]") {
  const std::string file = llmc_file({20240326, 3, 16, 10, 2, 3, 12, 128});
  const LlmcModel model = read_llmc_model(as_bytes_of(file), "m.bin");
  CHECK(model.dtype == "F32");
  CHECK(model.config.n_blocks == 2);
  CHECK(model.config.vocab_size == 10);
  CHECK(model.config.context_length == 16);
  REQUIRE(model.tensors.size() == 2 + 2 * 12 + 2);
  CHECK(model.tensors[0].name == "wte.weight");
  CHECK(model.tensors[0].shape == std::vector<int64_t>{10, 12});  // not 128: those are padding
  CHECK(model.tensors[0].begin == 1024);
  CHECK(model.tensors[1].name == "wpe.weight");
  CHECK(model.tensors[1].begin == 1024 + 128 * 12 * 4);
  CHECK(model.tensors[2].name == "h.0.ln_1.weight");
  CHECK(model.tensors[3].name == "h.1.ln_1.weight");
  CHECK(model.tensors.back().name == "ln_f.bias");
  CHECK(model.tensors.back().begin + model.tensors.back().bytes == file.size());
}

TEST_CASE("an llm.c file that is not what it says is refused", "[interop]") {
  const auto message = [](const std::string& file) {
    try {
      read_llmc_model(as_bytes_of(file), "m.bin");
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::vector<int32_t> good = {20240326, 3, 16, 10, 2, 3, 12, 128};
  CHECK(message(llmc_file(good)) == "accepted");
  CHECK(message(llmc_file({20240326, 5, 16, 10, 2, 3, 12, 128})) == "accepted");
  CHECK_THAT(message(""), ContainsSubstring("truncated"));
  CHECK_THAT(message(llmc_file(good, -1)), ContainsSubstring("truncated"));
  CHECK_THAT(message(llmc_file(good, 4)), ContainsSubstring("the file has"));
  const auto with = [&](size_t index, int32_t value) {
    std::string file = llmc_file(good);
    std::memcpy(file.data() + 4 * index, &value, 4);
    return message(file);
  };
  CHECK_THAT(with(0, 7), ContainsSubstring("expected 20240326"));
  CHECK_THAT(with(1, 1), ContainsSubstring("version 1"));
  CHECK_THAT(with(4, 0), ContainsSubstring("num_layers is 0"));
  CHECK_THAT(with(4, std::numeric_limits<int32_t>::max()), ContainsSubstring("num_layers"));
  CHECK_THAT(with(5, 5), ContainsSubstring("no multiple"));
  CHECK_THAT(with(7, 9), ContainsSubstring("below vocab_size"));
}

TEST_CASE("half precision is rounded to the nearest number", "[interop]") {
  // By hand: 1 = 0x3C00, 65504 the largest, 2^-24 the smallest, ties to even.
  CHECK(half_bits(0.0F) == 0x0000);
  CHECK(half_bits(-0.0F) == 0x8000);
  CHECK(half_bits(1.0F) == 0x3C00);
  CHECK(half_bits(-2.0F) == 0xC000);
  CHECK(half_bits(65504.0F) == 0x7BFF);
  CHECK(half_bits(65519.0F) == 0x7BFF);
  CHECK(half_bits(65520.0F) == 0x7C00);
  CHECK(half_bits(1e30F) == 0x7C00);
  CHECK(half_bits(std::ldexp(1.0F, -24)) == 0x0001);
  CHECK(half_bits(std::ldexp(1.0F, -25)) == 0x0000);  // a tie: to even
  CHECK(half_bits(std::ldexp(1.5F, -25)) == 0x0001);
  CHECK(half_bits(std::ldexp(1.0F, -14)) == 0x0400);             // the smallest normal one
  CHECK(half_bits(1.0F + std::ldexp(1.0F, -11)) == 0x3C00);      // a tie: to even
  CHECK(half_bits(1.0F + 3 * std::ldexp(1.0F, -11)) == 0x3C02);  // a tie: to even
  CHECK(half_bits(2.0F - std::ldexp(1.0F, -12)) == 0x4000);      // carries into the exponent
  CHECK((half_bits(std::numeric_limits<float>::quiet_NaN()) & 0x7E00) == 0x7E00);
}

TEST_CASE("a block of q8_0 is a scale and 32 bytes", "[interop]") {
  std::vector<float> values(32, 0.0F);
  values[0] = -12.7F;
  values[1] = 6.35F;
  values[31] = 0.1F;
  const std::string block = quantize_q8_0(values);
  REQUIRE(block.size() == 34);
  uint16_t scale = 0;
  std::memcpy(&scale, block.data(), 2);
  CHECK(scale == half_bits(0.1F));
  CHECK(static_cast<int8_t>(block[2]) == -127);
  CHECK(static_cast<int8_t>(block[3]) == 64);  // 63.5, away from zero as ggml rounds
  CHECK(static_cast<int8_t>(block[33]) == 1);
  CHECK(quantize_q8_0(std::vector<float>(32, 0.0F)) == std::string(34, '\0'));
}

TEST_CASE("a GGUF file is laid out as the format says", "[interop]") {
  const TempDir dir;
  GgufWriter gguf;
  gguf.add("a", uint32_t{7});
  gguf.add("s", "xy");
  gguf.add("list", std::vector<std::string>{"p", ""});
  gguf.add_tensor("t", {2, 3}, GgmlType::kF32, [] { return std::string(24, 't'); });
  gguf.add_tensor("u", {32}, GgmlType::kQ8_0, [] { return std::string(34, 'u'); });
  gguf.write(dir / "m.gguf");
  const std::string bytes = read_text(dir / "m.gguf");
  const auto u32 = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, 4);
    return value;
  };
  const auto u64 = [&](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    return value;
  };
  CHECK(bytes.substr(0, 4) == "GGUF");
  CHECK(u32(4) == 3);
  CHECK(u64(8) == 2);   // tensors
  CHECK(u64(16) == 3);  // keys
  CHECK(u64(24) == 1);
  CHECK(bytes[32] == 'a');
  CHECK(u32(33) == 4);  // uint32
  CHECK(u32(37) == 7);
  const size_t t = bytes.find("\x01\0\0\0\0\0\0\0t", 0, 9);
  REQUIRE(t != std::string::npos);
  CHECK(u32(t + 9) == 2);   // dimensions
  CHECK(u64(t + 13) == 3);  // columns first
  CHECK(u64(t + 21) == 2);
  CHECK(u32(t + 29) == 0);                   // F32
  CHECK(u64(t + 33) == 0);                   // offset
  CHECK(u64(t + 41 + 9 + 4 + 8 + 4) == 32);  // u begins at the next multiple of 32
  REQUIRE(bytes.size() % 32 == 0);
  CHECK(bytes.substr(bytes.size() - 96, 24) == std::string(24, 't'));
  CHECK(bytes.substr(bytes.size() - 64, 34) == std::string(34, 'u'));
  CHECK(bytes.back() == '\0');
}

TEST_CASE("bytes and characters are written for other programs", "[interop]") {
  CHECK(byte_level_text("A b\n") == "AĠbĊ");
  const auto bytes = make_byte_tokenizer();
  auto files = huggingface_tokenizer_files(*bytes, 64);
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "tokenizer.json");
  Json json = Json::parse(files[0].content);
  CHECK(json["model"]["type"] == "BPE");
  CHECK(json["model"]["vocab"].size() == 256);
  CHECK(json["model"]["vocab"]["Ġ"] == 32);
  CHECK(files[1].name == "tril_tokenizer.json");
  CHECK(Json::parse(files[1].content)["type"] == "byte");

  const CharTokenizer chars = CharTokenizer::from_text("a é\n日\\");
  files = huggingface_tokenizer_files(chars, 64);
  json = Json::parse(files[0].content);
  CHECK(json["model"]["type"] == "WordLevel");
  CHECK(json["model"]["vocab"]["é"] == 4);

  const GgufVocabulary vocabulary = gguf_vocabulary(chars, 8);
  CHECK(vocabulary.model == "rwkv");
  CHECK(vocabulary.tokens ==
        std::vector<std::string>{
            "\\x0a", "\\x20", "\\x5c", "a", "\\xc3\\xa9", "\\xe6\\x97\\xa5", "[PAD6]", "[PAD7]"});
  CHECK(vocabulary.types == std::vector<int32_t>{1, 1, 1, 1, 1, 1, 5, 5});
  CHECK_FALSE(vocabulary.end_of_text);
}

TEST_CASE("a BPE vocabulary without end-of-text has one in GGUF that no text contains",
          "[interop]") {
  for (const bool documents : {false, true}) {
    const auto learner = make_learner("bpe:270", {.documents = documents});
    learner->add("one, two, one, two, three");
    const auto tokenizer = learner->learn([] {});
    const GgufVocabulary vocabulary = gguf_vocabulary(*tokenizer, tokenizer->vocab_size());
    REQUIRE(vocabulary.end_of_text);
    CHECK(tokenizer->token_bytes(*vocabulary.end_of_text) ==
          (documents ? "<|endoftext|>" : "\xff"));
  }
}
