#include "tril/interop/huggingface_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>

#include "foreign_limits.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

/// The longest context taken over for rotary positions, which have no weights: the causal mask and
/// the cache grow with it.
constexpr int64_t kMaxRotaryContext = 4096;

/// Typed access to a foreign config. A missing key and null are the same: the default.
class Reader {
 public:
  Reader(const Json& json, std::string origin) : json_(json), origin_(std::move(origin)) {
    if (!json.is_object()) {
      throw CheckpointError(origin_ + ": expected a JSON object, the config of a model");
    }
  }

  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void refuse(const char* key, std::string_view expected) const {
    const auto found = json_.find(key);
    const std::string value = found == json_.end() ? "nothing" : dump_json(*found, -1);
    throw CheckpointError(fmt::format(
        "{}: {} is {}; {}", origin_, key, escape_for_message(value.substr(0, 80)), expected));
  }

  int64_t size(const char* key, int64_t max) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number_integer() || value->is_number_float() ||
        !(value->get<double>() >= 1 && value->get<double>() <= static_cast<double>(max))) {
      refuse(key, fmt::format("expected a whole number from 1 to {}", max));
    }
    return value->get<int64_t>();
  }
  int64_t size(const char* key, int64_t max, int64_t otherwise) const {
    return find(key) == nullptr ? otherwise : size(key, max);
  }
  double positive(const char* key, double otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() > 0) ||
        !std::isfinite(value->get<double>())) {
      refuse(key, "expected a number above 0");
    }
    return value->get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "expected true or false");
    return value->get<bool>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    const Json* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "expected a text");
    return value->get<std::string>();
  }
  /// A switch of which tril computes one side only.
  void require(const char* key, bool expected, bool otherwise) const {
    if (flag(key, otherwise) != expected) {
      refuse(key, fmt::format("tril computes only what {} means", expected));
    }
  }
  void require_absent(const char* key) const {
    if (find(key) != nullptr) refuse(key, "tril has no such thing");
  }

  const std::string& origin() const { return origin_; }

 private:
  const Json& json_;
  std::string origin_;
};

struct ActivationName {
  std::string_view name;
  Activation activation;
};
/// GPT-2's names; the first of each activation is the one written.
constexpr ActivationName kActivationNamesOfGpt2[] = {
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGelu},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kReluSquared},
};

void read_gpt2(const Reader& in, ForeignConfig& out) {
  ModelConfig& m = out.model;
  m = model_preset(Preset::kGpt2);
  m.n_embed = in.size("n_embd", 1 << 16);
  m.n_head = in.size("n_head", 1 << 16);
  m.n_blocks = in.size("n_layer", 1 << 12);
  m.context_length = in.find("n_positions") != nullptr ? in.size("n_positions", 1 << 20)
                                                       : in.size("n_ctx", 1 << 20);
  m.vocab_size = in.size("vocab_size", 1 << 24);
  m.ffn_width = in.size("n_inner", 1 << 20, 4 * m.n_embed);
  m.norm_epsilon = in.positive("layer_norm_epsilon", 1e-5);
  m.tie_embeddings = in.flag("tie_word_embeddings", true);
  const std::string activation = in.text("activation_function", "gelu_new");
  bool known = false;
  for (const auto& [name, ours] : kActivationNamesOfGpt2) {
    if (name == activation) {
      m.activation = ours;
      known = true;
    }
  }
  if (!known) {
    in.refuse("activation_function", "tril has gelu_new, gelu_pytorch_tanh, gelu, relu and relu2");
  }
  in.require("scale_attn_weights", true, true);
  in.require("scale_attn_by_inverse_layer_idx", false, false);
  in.require("add_cross_attention", false, false);
  if (in.flag("reorder_and_upcast_attn", false)) {
    out.notices.emplace_back(
        "reorder_and_upcast_attn: attention scores are computed in fp32 here in any case");
  }
}

double read_rope_base(const Reader& in) {
  // transformers 5 writes rope_parameters, before it was rope_theta and rope_scaling.
  const auto read_nested = [&](const char* key, double base) {
    const Json* nested = in.find(key);
    if (nested == nullptr) return base;
    const Reader inner(*nested, fmt::format("{}: {}", in.origin(), key));
    for (const char* type : {"rope_type", "type"}) {
      if (inner.text(type, "default") != "default") {
        inner.refuse(type, "tril rotates without scaling: only \"default\"");
      }
    }
    if (inner.find("factor") != nullptr && inner.positive("factor", 1) != 1) {
      inner.refuse("factor", "tril rotates without scaling");
    }
    if (inner.positive("partial_rotary_factor", 1) != 1) {
      inner.refuse("partial_rotary_factor", "tril rotates whole heads");
    }
    return inner.positive("rope_theta", base);
  };
  if (in.positive("partial_rotary_factor", 1) != 1) {
    in.refuse("partial_rotary_factor", "tril rotates whole heads");
  }
  const double base = in.positive("rope_theta", 10000);
  return read_nested("rope_parameters", read_nested("rope_scaling", base));
}

void read_llama(const Reader& in, const std::string& type, ForeignConfig& out) {
  out.is_llama = true;
  ModelConfig& m = out.model;
  m = model_preset(Preset::kModern);
  m.activation = Activation::kSwiglu;
  m.qk_norm = false;
  m.n_embed = in.size("hidden_size", 1 << 16);
  m.n_head = in.size("num_attention_heads", 1 << 16);
  m.n_blocks = in.size("num_hidden_layers", 1 << 12);
  m.ffn_width = in.size("intermediate_size", 1 << 20);
  m.vocab_size = in.size("vocab_size", 1 << 24);
  m.norm_epsilon = in.positive("rms_norm_eps", 1e-6);
  m.rope_base = read_rope_base(in);
  m.tie_embeddings = in.flag("tie_word_embeddings", false);
  const int64_t positions = in.size("max_position_embeddings", int64_t{1} << 40, 2048);
  m.context_length = std::min(positions, kMaxRotaryContext);
  if (positions > m.context_length) {
    out.notices.push_back(
        fmt::format("context_length is {}: max_position_embeddings {} is more than is taken over "
                    "by itself (--set model.context_length=N)",
                    m.context_length,
                    positions));
  }
  if (in.size("head_dim", 1 << 16, m.n_embed / m.n_head) != m.n_embed / m.n_head) {
    in.refuse("head_dim",
              fmt::format("tril has hidden_size / num_attention_heads = {}", m.head_size()));
  }
  const int64_t n_kv_head = in.size("num_key_value_heads", 1 << 16, m.n_head);
  if (m.n_head % n_kv_head != 0) {
    in.refuse("num_key_value_heads",
              fmt::format("num_attention_heads is {}, which is no multiple of it", m.n_head));
  }
  m.n_kv_head = n_kv_head == m.n_head ? 0 : n_kv_head;
  const std::string activation = in.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    in.refuse("hidden_act", "tril has silu (swiglu) in this family");
  }
  const bool attention_bias = in.flag("attention_bias", false);
  const bool mlp_bias = in.flag("mlp_bias", false);
  m.qkv_bias = attention_bias;
  m.bias = mlp_bias;
  if (type == "qwen2") {
    m.qkv_bias = true;
    m.bias = false;
    in.require("use_sliding_window", false, false);
  } else if (attention_bias != mlp_bias) {
    in.refuse("mlp_bias", "tril has both attention_bias and mlp_bias, or neither");
  }
  if (type == "mistral") in.require_absent("sliding_window");
  if (in.size("pretraining_tp", 1 << 10, 1) != 1) {
    in.refuse("pretraining_tp", "tril multiplies each matrix as a whole: only 1");
  }
}

std::string_view activation_name_of_gpt2(Activation activation) {
  for (const auto& [name, ours] : kActivationNamesOfGpt2) {
    if (ours == activation) return name;
  }
  return {};
}

/// "model.KEY is VALUE (the format has ...)" for each key that has no place.
void check_gpt2(const ModelConfig& m, ExportFormat format, std::vector<std::string>& problems) {
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view has) {
    problems.push_back(fmt::format("model.{} {} (it has {})", key, value, has));
  };
  if (m.positions != Positions::kLearned) refuse("positions", enum_name(m.positions), "learned");
  if (m.norm != Norm::kLayerNorm) refuse("norm", enum_name(m.norm), "layer_norm");
  if (m.qk_norm) refuse("qk_norm", "true", "none");
  if (m.n_shift_head > 0) refuse("n_shift_head", std::to_string(m.n_shift_head), "none");
  if (m.head_bias) refuse("head_bias", "true", "no bias of the head");
  if (m.kv_heads() != m.n_head) {
    refuse("n_kv_head", std::to_string(m.n_kv_head), "as many as n_head");
  }
  const bool fits = format == ExportFormat::kGguf ? m.activation == Activation::kGeluTanh
                                                  : !activation_name_of_gpt2(m.activation).empty();
  if (!fits) {
    refuse("activation",
           enum_name(m.activation),
           format == ExportFormat::kGguf ? "gelu_tanh" : "gelu_tanh, gelu, relu, relu_squared");
  }
}

void check_llama(const ModelConfig& m, std::vector<std::string>& problems) {
  const auto refuse = [&](std::string_view key, std::string_view value, std::string_view has) {
    problems.push_back(fmt::format("model.{} {} (it has {})", key, value, has));
  };
  if (m.positions != Positions::kRope) refuse("positions", enum_name(m.positions), "rope");
  if (m.norm != Norm::kRmsNorm) refuse("norm", enum_name(m.norm), "rms_norm");
  if (m.activation != Activation::kSwiglu) {
    refuse("activation", enum_name(m.activation), "swiglu");
  }
  if (m.qk_norm) refuse("qk_norm", "true", "none");
  if (m.n_shift_head > 0) refuse("n_shift_head", std::to_string(m.n_shift_head), "none");
  if (m.head_bias) refuse("head_bias", "true", "no bias of the head");
}

}  // namespace

ForeignConfig read_huggingface_config(const Json& json, const std::string& origin) {
  const Reader in(json, origin);
  ForeignConfig out;
  const std::string type = in.text("model_type", "");
  in.require_absent("quantization_config");
  if (type == "gpt2") {
    read_gpt2(in, out);
  } else if (type == "llama" || type == "mistral" || type == "qwen2") {
    read_llama(in, type, out);
  } else {
    in.refuse("model_type", "tril reads gpt2, llama, mistral and qwen2");
  }
  if (out.model.n_embed % out.model.n_head != 0) {
    throw CheckpointError(fmt::format("{}: a width of {} is no multiple of {} heads",
                                      origin,
                                      out.model.n_embed,
                                      out.model.n_head));
  }
  if (out.model.n_blocks * out.model.n_head > kMaxHeadsInAll) {
    throw CheckpointError(fmt::format("{}: {} blocks of {} heads are more than tril reads ({})",
                                      origin,
                                      out.model.n_blocks,
                                      out.model.n_head,
                                      kMaxHeadsInAll));
  }
  return out;
}

ExportPlan plan_export(const ModelConfig& config, ExportFormat format) {
  std::vector<std::string> gpt2_problems;
  std::vector<std::string> llama_problems;
  check_gpt2(config, format, gpt2_problems);
  check_llama(config, llama_problems);
  if (!gpt2_problems.empty() && !llama_problems.empty()) {
    throw ConfigError(fmt::format(
        "{} cannot hold this model. Its form of GPT-2 has no place for: {}. Its form of Llama has "
        "no place for: {}. docs/interop.md has the table of what fits",
        format == ExportFormat::kGguf ? "GGUF" : "The Hugging Face form",
        fmt::join(gpt2_problems, ", "),
        fmt::join(llama_problems, ", ")));
  }
  ExportPlan plan;
  plan.is_llama = !gpt2_problems.empty();
  plan.model = config;
  // GPT-2 has all biases; Llama all, or those of query, key and value alone (Qwen2), or none.
  const bool all_biases = !plan.is_llama || config.bias;
  plan.model.bias = all_biases;
  plan.model.qkv_bias = all_biases || config.qkv_bias;
  plan.adds_zero_biases = plan.model.bias != config.bias || plan.model.qkv_bias != config.qkv_bias;
  plan.model.vocab_multiple = 1;  // padding rows stay here
  return plan;
}

OrderedJson write_huggingface_config(const ExportPlan& plan,
                                     int64_t end_of_text,
                                     const std::string& dtype) {
  const ModelConfig& m = plan.model;
  const OrderedJson end = end_of_text < 0 ? OrderedJson(nullptr) : OrderedJson(end_of_text);
  OrderedJson json;
  if (plan.is_llama) {
    const bool is_qwen2 = m.qkv_bias && !m.bias;
    json["architectures"] = {is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
    json["model_type"] = is_qwen2 ? "qwen2" : "llama";
    json["hidden_size"] = m.n_embed;
    json["intermediate_size"] = m.ffn_size();
    json["num_hidden_layers"] = m.n_blocks;
    json["num_attention_heads"] = m.n_head;
    json["num_key_value_heads"] = m.kv_heads();
    if (!is_qwen2) json["head_dim"] = m.head_size();
    json["max_position_embeddings"] = m.context_length;
    json["vocab_size"] = m.vocab_size;
    json["hidden_act"] = "silu";
    json["rms_norm_eps"] = m.norm_epsilon;
    json["rope_theta"] = m.rope_base;
    json["rope_scaling"] = nullptr;
    if (!is_qwen2) {
      json["attention_bias"] = m.qkv_bias;
      json["mlp_bias"] = m.bias;
    }
    json["attention_dropout"] = 0.0;
  } else {
    json["architectures"] = {"GPT2LMHeadModel"};
    json["model_type"] = "gpt2";
    json["n_embd"] = m.n_embed;
    json["n_head"] = m.n_head;
    json["n_layer"] = m.n_blocks;
    json["n_positions"] = m.context_length;
    json["n_inner"] = m.ffn_size();
    json["vocab_size"] = m.vocab_size;
    json["activation_function"] = activation_name_of_gpt2(m.activation);
    json["layer_norm_epsilon"] = m.norm_epsilon;
    json["attn_pdrop"] = 0.0;
    json["embd_pdrop"] = 0.0;
    json["resid_pdrop"] = 0.0;
    json["scale_attn_weights"] = true;
    json["scale_attn_by_inverse_layer_idx"] = false;
    json["reorder_and_upcast_attn"] = false;
  }
  json["tie_word_embeddings"] = m.tie_embeddings;
  json["bos_token_id"] = end;
  json["eos_token_id"] = end;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
  json["use_cache"] = true;
  return json;
}

}  // namespace tril
