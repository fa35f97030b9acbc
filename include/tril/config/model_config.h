#pragma once
// The `model` section: the shape of the network and its variants. Variants are values, not classes.

#include <cstdint>
#include <string>

#include "tril/config/field.h"

namespace tril {

/// Whole choices by name; see model_preset().
enum class Preset { kClassic, kGpt2, kModern };
enum class Positions { kLearned, kRope };
enum class Norm { kLayerNorm, kRmsNorm };
enum class Activation { kRelu, kGelu, kGeluTanh, kReluSquared, kSwiglu };
/// Two ways to compute one attention; `reference` goes head by head and holds T x T weights.
enum class AttentionPath { kFused, kReference };

inline constexpr EnumName<Preset> kPresetNames[] = {
    {Preset::kClassic, "classic"},
    {Preset::kGpt2, "gpt2"},
    {Preset::kModern, "modern"},
};
inline constexpr EnumName<Positions> kPositionsNames[] = {
    {Positions::kLearned, "learned"},
    {Positions::kRope, "rope"},
};
inline constexpr EnumName<Norm> kNormNames[] = {
    {Norm::kLayerNorm, "layer_norm"},
    {Norm::kRmsNorm, "rms_norm"},
};
inline constexpr EnumName<Activation> kActivationNames[] = {
    {Activation::kRelu, "relu"},
    {Activation::kGelu, "gelu"},
    {Activation::kGeluTanh, "gelu_tanh"},
    {Activation::kReluSquared, "relu_squared"},
    {Activation::kSwiglu, "swiglu"},
};
inline constexpr EnumName<AttentionPath> kAttentionPathNames[] = {
    {AttentionPath::kFused, "fused"},
    {AttentionPath::kReference, "reference"},
};
constexpr std::span<const EnumName<Preset>> enum_names(Preset) {
  return kPresetNames;
}
constexpr std::span<const EnumName<Positions>> enum_names(Positions) {
  return kPositionsNames;
}
constexpr std::span<const EnumName<Norm>> enum_names(Norm) {
  return kNormNames;
}
constexpr std::span<const EnumName<Activation>> enum_names(Activation) {
  return kActivationNames;
}
constexpr std::span<const EnumName<AttentionPath>> enum_names(AttentionPath) {
  return kAttentionPathNames;
}

/// The defaults are the preset `modern` at a size that a CPU trains in minutes.
struct ModelConfig {
  Preset preset = Preset::kModern;
  int64_t context_length = 128;  ///< T, the longest
  int64_t n_embed = 128;         ///< C
  int64_t n_head = 4;            ///< H
  int64_t n_kv_head = 0;         ///< heads of keys and values; 0: n_head
  int64_t n_shift_head = 0;      ///< heads, the first ones, whose keys are one token late
  int64_t n_blocks = 4;          ///< L
  Positions positions = Positions::kRope;
  double rope_base = 10000;
  Norm norm = Norm::kRmsNorm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::kReluSquared;
  bool qk_norm = true;
  bool bias = false;
  bool qkv_bias = false;
  bool head_bias = false;
  bool tie_embeddings = true;
  double dropout = 0;
  int64_t ffn_width = 0;       ///< F; 0: the rule of ffn_size()
  int64_t ffn_multiplier = 4;  ///< F / C
  int64_t vocab_size = 0;      ///< V; 0: the tokenizer's. To build a model it must be > 0.
  int64_t vocab_multiple = 1;
  AttentionPath attention = AttentionPath::kFused;

  bool operator==(const ModelConfig&) const = default;

  /// D = C / H (whole in a valid config).
  int64_t head_size() const { return n_embed / n_head; }
  /// Heads of keys and values; H / kv_heads() query heads share each.
  int64_t kv_heads() const { return n_kv_head > 0 ? n_kv_head : n_head; }
  /// F: ffn_width, or 8C/3 (floor) rounded up to 64 for swiglu, or ffn_multiplier * C.
  int64_t ffn_size() const;
  /// V rounded up to vocab_multiple: the rows of the embedding. Ids from vocab_size on are padding.
  int64_t padded_vocab_size() const;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("preset",
            self.preset,
            {.meaning = "a whole choice by name (see below): it sets the keys marked *by preset*, "
                        "and any key beside it overrides"});
    v.field("context_length",
            self.context_length,
            {.meaning = "T: how far back the model sees, and the length of a training window",
             .unit = "tokens",
             .min = 1,
             .max = 1 << 20});
    v.field(
        "n_embed",
        self.n_embed,
        {.meaning = "C: the width of the model; a multiple of `n_head`", .min = 1, .max = 1 << 16});
    v.field("n_head",
            self.n_head,
            {.meaning = "H: attention heads per block; each has D = C / H dimensions, an even "
                        "number with rope",
             .min = 1,
             .max = 1 << 16});
    v.field("n_kv_head",
            self.n_kv_head,
            {.meaning = "heads of keys and values: `n_head` / `n_kv_head` heads in a row share one "
                        "(grouped queries), which makes the cache smaller; 0: one for each head",
             .min = 0,
             .max = 1 << 16});
    v.field("n_shift_head",
            self.n_shift_head,
            {.meaning = "so many heads of each block, the first ones, are found by the key of the "
                        "token before: they look for a token and read what came after it. A "
                        "multiple of `n_head` / `n_kv_head`",
             .min = 0,
             .max = 1 << 16});
    v.field("n_blocks", self.n_blocks, {.meaning = "L: blocks", .min = 1, .max = 1 << 12});
    v.field("positions",
            self.positions,
            {.meaning = "`learned`: a vector per position; `rope`: queries and keys are rotated"});
    v.field("rope_base",
            self.rope_base,
            {.meaning = "base of the rotation frequencies; used with `rope` only",
             .min = 1,
             .min_itself = false});
    v.field("norm", self.norm, {.meaning = "the normalisation before each part and at the end"});
    v.field("norm_epsilon",
            self.norm_epsilon,
            {.meaning = "added to the variance or mean square",
             .min = 0,
             .max = 1,
             .min_itself = false});
    v.field("activation",
            self.activation,
            {.meaning = "of the feed-forward network; `gelu` is exact, `gelu_tanh` GPT-2's "
                        "approximation, `swiglu` has a third matrix"});
    v.field("qk_norm",
            self.qk_norm,
            {.meaning = "each head's queries and keys are normalised (rms, no gain)"});
    v.field("bias",
            self.bias,
            {.meaning = "biases of layer_norm, the attention's output projection and the "
                        "feed-forward network"});
    v.field("qkv_bias", self.qkv_bias, {.meaning = "biases of query, key and value"});
    v.field("head_bias", self.head_bias, {.meaning = "a bias of the last linear map"});
    v.field("tie_embeddings",
            self.tie_embeddings,
            {.meaning = "the last linear map uses the token embedding's matrix"});
    v.field("dropout",
            self.dropout,
            {.meaning = "probability; on the embedding sum, both residual branches and the "
                        "attention weights",
             .min = 0,
             .max = 1,
             .max_itself = false});
    v.field("ffn_width",
            self.ffn_width,
            {.meaning = "F: inner width of the feed-forward network; 0: `ffn_multiplier` * C, or "
                        "for swiglu 8C/3 rounded up to a multiple of 64",
             .min = 0,
             .max = 1 << 20});
    v.field("ffn_multiplier",
            self.ffn_multiplier,
            {.meaning = "F / C; not used by swiglu or with `ffn_width`", .min = 1, .max = 64});
    v.field("vocab_size",
            self.vocab_size,
            {.meaning = "V: ids the model knows, at least the tokenizer's; 0: the tokenizer's",
             .unit = "tokens",
             .min = 0,
             .max = 1 << 24});
    v.field("vocab_multiple",
            self.vocab_multiple,
            {.meaning = "the embedding's rows are rounded up to a multiple of this; the padding "
                        "takes no probability",
             .min = 1,
             .max = 1 << 16});
    v.field("attention",
            self.attention,
            {.meaning = "`fused`: fast; `reference`: head by head, as the textbook writes it. "
                        "Same result"});
  }
};

/// A default ModelConfig with the choices of a preset:
///            positions  norm        activation    qk_norm  bias  qkv_bias  head_bias  tied
///   classic  learned    layer_norm  relu          no       yes   no        yes        no
///   gpt2     learned    layer_norm  gelu_tanh     no       yes   yes       no         yes
///   modern   rope       rms_norm    relu_squared  yes      no    no        no         yes
ModelConfig model_preset(Preset preset);

/// Sets the keys a preset decides, and `preset`; sizes and the rest stay.
void apply_preset(ModelConfig& config, Preset preset);

/// Contradictions between keys: C not a multiple of H, H not of n_kv_head, n_shift_head, odd D with
/// rope. Throws ConfigError that begins with `origin` and gives both numbers.
void validate(const ModelConfig& config, const std::string& origin);

/// Numbers in the model's parameters (padded vocabulary; a tied matrix counts once).
int64_t parameter_count(const ModelConfig& config);

/// Floating-point operations of forward and backward per token at full context:
/// 6 * (parameters of matrices that multiply: the head is one, embeddings are not) + 6 L C T.
/// The second part is attention's own, counted with the causal half only.
double flops_per_token(const ModelConfig& config);

}  // namespace tril
