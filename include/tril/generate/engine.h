#pragma once
// Generation on the CPU at the memory's speed: weights packed once, in fp32, bf16 or int8; keys and
// values of all positions kept; nothing allocated per token.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tril/config/field.h"
#include "tril/model/gpt.h"

namespace tril {

/// How the matrices are held. Vectors, activations and sums stay fp32.
enum class WeightFormat {
  kFp32,
  kBf16,  ///< half the bytes
  kInt8,  ///< a quarter: signed bytes with one scale per row (output channel)
};
inline constexpr EnumName<WeightFormat> kWeightFormatNames[] = {
    {WeightFormat::kFp32, "fp32"},
    {WeightFormat::kBf16, "bf16"},
    {WeightFormat::kInt8, "int8"},
};
constexpr std::span<const EnumName<WeightFormat>> enum_names(WeightFormat) {
  return kWeightFormatNames;
}

/// A matrix (rows, columns) ready to multiply one vector, or many through LibTorch.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kFp32;
  torch::Tensor values;  ///< (rows, columns) float32, bfloat16 or int8, contiguous
  torch::Tensor scales;  ///< (rows) float32; int8 only
  torch::Tensor bias;    ///< (rows) float32 or undefined

  int64_t rows() const { return values.size(0); }
  int64_t columns() const { return values.size(1); }
  /// The matrix that the packed values stand for, float32.
  torch::Tensor unpacked() const;
};

/// Packs a float32 matrix; in fp32 a contiguous one is shared, not copied.
PackedMatrix pack_matrix(const torch::Tensor& weight,
                         const torch::Tensor& bias,
                         WeightFormat format);

/// Replaces every matrix of the model that an engine would pack by the values it would compute
/// with: what evaluating a format means. The embedding table keeps its values unless it is the head
/// too.
void round_weights(GPT& model, WeightFormat format);

struct EngineOptions {
  WeightFormat format = WeightFormat::kFp32;
  int64_t sequences = 1;  ///< texts at once
  int64_t capacity = 0;   ///< positions per text; 0: the context
  int64_t threads = 1;    ///< at most; see Engine::threads
};

/// One more token of one text.
struct EngineStep {
  int64_t sequence = 0;
  int64_t id = 0;
};

/// Several texts under one model. The weights of the model must not change while an engine lives;
/// in fp32 it shares most of them.
class Engine {
 public:
  Engine(const GPT& model, const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Begins a text anew with `ids` (1 to capacity), all in one pass. Returns the logits (V) of the
  /// next token, valid until the next call.
  std::span<const float> read_prompt(int64_t sequence, std::span<const int64_t> ids);

  /// Appends one token to each of these texts (different ones, none full). The logits are then in
  /// logits(i) for the i-th step, valid until the next call.
  void step(std::span<const EngineStep> steps);
  std::span<const float> logits(size_t step) const;

  /// Makes text `to` equal to text `from`.
  void copy_text(int64_t from, int64_t to);

  int64_t length(int64_t sequence) const;  ///< positions held
  int64_t capacity() const;
  int64_t vocab_size() const;
  /// Threads of a step: one per 256 KiB of weights, at most options.threads. A smaller model would
  /// wait for its threads longer than they help.
  int64_t threads() const;
  /// Bytes of weights that one step reads.
  int64_t bytes_per_step() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tril
