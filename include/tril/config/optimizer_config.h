#pragma once
// The `optimizer` and `schedule` sections.

#include <cstdint>
#include <optional>
#include <string>

#include "tril/config/field.h"

namespace tril {

enum class OptimizerName { kAdamW, kMuon };

inline constexpr EnumName<OptimizerName> kOptimizerNames[] = {
    {OptimizerName::kAdamW, "adamw"},
    {OptimizerName::kMuon, "muon"},
};
constexpr std::span<const EnumName<OptimizerName>> enum_names(OptimizerName) {
  return kOptimizerNames;
}

/// What Muon's own products compute in.
enum class MatrixPrecision { kAuto, kFp32, kBf16 };

inline constexpr EnumName<MatrixPrecision> kMatrixPrecisionNames[] = {
    {MatrixPrecision::kAuto, "auto"},
    {MatrixPrecision::kFp32, "fp32"},
    {MatrixPrecision::kBf16, "bf16"},
};
constexpr std::span<const EnumName<MatrixPrecision>> enum_names(MatrixPrecision) {
  return kMatrixPrecisionNames;
}

struct OptimizerConfig {
  OptimizerName name = OptimizerName::kAdamW;
  double learning_rate = 1e-3;
  double matrix_learning_rate = 0.02;  ///< muon: of the matrices inside the blocks
  MatrixPrecision matrix_precision = MatrixPrecision::kAuto;  ///< muon: of its own products
  double momentum = 0.95;                                     ///< muon
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double grad_clip = 1.0;  ///< largest global norm of the gradient; 0: off
  std::string frozen;      ///< patterns of parameter names, separated by commas
  double layer_decay = 1;  ///< of the learning rate, from the last block to the first

  bool operator==(const OptimizerConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("name",
            self.name,
            {.meaning = "adamw: AdamW for everything; muon: Muon for the matrices inside the "
                        "blocks, AdamW for the rest"});
    v.field("learning_rate",
            self.learning_rate,
            {.meaning = "the highest learning rate; the schedule multiplies it",
             .min = 0,
             .min_itself = false});
    v.field("matrix_learning_rate",
            self.matrix_learning_rate,
            {.meaning = "muon: the highest learning rate of the matrices inside the blocks; the "
                        "schedule multiplies both. Not used by `adamw`",
             .min = 0,
             .min_itself = false});
    v.field("matrix_precision",
            self.matrix_precision,
            {.meaning = "muon: what its iteration multiplies in. bf16 is faster; fp32 "
                        "repeats within round-off on any number of processes; auto: bf16 on GPUs "
                        "and where the processor has instructions for it. Not used by `adamw`"});
    v.field("momentum",
            self.momentum,
            {.meaning = "muon: decay of the gradient's running mean. Not used by `adamw`",
             .min = 0,
             .max = 1,
             .max_itself = false});
    v.field("beta1",
            self.beta1,
            {.meaning = "decay of the gradient's running mean",
             .min = 0,
             .max = 1,
             .max_itself = false});
    v.field("beta2",
            self.beta2,
            {.meaning = "decay of the squared gradient's running mean",
             .min = 0,
             .max = 1,
             .max_itself = false});
    v.field("epsilon",
            self.epsilon,
            {.meaning = "added to the root in the denominator", .min = 0, .min_itself = false});
    v.field("weight_decay",
            self.weight_decay,
            {.meaning = "decoupled decay, times the learning rate; on tensors of two or more "
                        "dimensions only",
             .min = 0});
    v.field("grad_clip",
            self.grad_clip,
            {.meaning = "the gradient's global norm is cut to this; 0: not cut", .min = 0});
    v.field(
        "frozen",
        self.frozen,
        {.meaning = "parameters that stay as they are: patterns over their names (`*` any text, "
                    "`?` one character), separated by commas, such as "
                    "`token_embedding.*, blocks.0.*`"});
    v.field(
        "layer_decay",
        self.layer_decay,
        {.meaning = "d: block i of L learns at the rate times d^(L - 1 - i), embeddings at d^L; "
                    "1: all alike. For training on from other weights",
         .min = 0,
         .max = 1,
         .min_itself = false});
  }
};

/// The shape of the learning-rate curve (schedule.name).
enum class ScheduleName { kCosine, kLinear, kConstant, kWsd };

inline constexpr EnumName<ScheduleName> kScheduleNames[] = {
    {ScheduleName::kCosine, "cosine"},
    {ScheduleName::kLinear, "linear"},
    {ScheduleName::kConstant, "constant"},
    {ScheduleName::kWsd, "wsd"},
};
constexpr std::span<const EnumName<ScheduleName>> enum_names(ScheduleName) {
  return kScheduleNames;
}

struct ScheduleConfig {
  ScheduleName name = ScheduleName::kCosine;
  int64_t warmup_steps = 100;
  std::optional<double> min_learning_rate;  ///< nothing: a tenth of learning_rate
  int64_t decay_steps = 0;                  ///< 0: the rule of resolved_decay_steps

  bool operator==(const ScheduleConfig&) const = default;

  /// The lowest learning rate divided by the highest: what the curve ends at.
  double min_factor(double learning_rate) const {
    return min_learning_rate ? *min_learning_rate / learning_rate : 0.1;
  }

  /// decay_steps, or its rule: the last fifth (at least 1 step) for wsd, else all steps. Never 0.
  int64_t resolved_decay_steps(int64_t total_steps) const {
    if (decay_steps > 0) return decay_steps;
    const int64_t steps = name == ScheduleName::kWsd ? total_steps / 5 : total_steps;
    return steps > 0 ? steps : 1;
  }

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("name", self.name, {.meaning = "the shape of the learning-rate curve (see below)"});
    v.field("warmup_steps",
            self.warmup_steps,
            {.meaning = "the learning rate rises evenly over so many steps",
             .unit = "steps",
             .min = 0,
             .max = 1e12});
    v.field("min_learning_rate",
            self.min_learning_rate,
            {.meaning = "where the decay ends; null: a tenth of `optimizer.learning_rate`. At "
                        "most `optimizer.learning_rate`. Not used by `constant`",
             .min = 0});
    v.field("decay_steps",
            self.decay_steps,
            {.meaning = "cosine, linear: the step at which the decay ends (0: the last step); "
                        "wsd: the length of the decay at the end (0: the last fifth). Not used "
                        "by `constant`",
             .unit = "steps",
             .min = 0,
             .max = 1e12});
  }
};

}  // namespace tril
