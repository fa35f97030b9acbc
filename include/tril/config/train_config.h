#pragma once
// The `train`, `checkpoint` and `logging` sections: how long, in which pieces, what is kept and
// told.

#include <cstdint>
#include <string>

#include "tril/config/field.h"
#include "tril/config/precision.h"

namespace tril {

/// What to do when a step is bad: not finite or, with spike_z_score, far above the recent losses.
enum class OnSpike { kStop, kSkip, kRewind };

inline constexpr EnumName<OnSpike> kOnSpikeNames[] = {
    {OnSpike::kStop, "stop"},
    {OnSpike::kSkip, "skip"},
    {OnSpike::kRewind, "rewind"},
};
constexpr std::span<const EnumName<OnSpike>> enum_names(OnSpike) {
  return kOnSpikeNames;
}

/// Steps when neither steps, tokens nor epochs is given.
inline constexpr int64_t kDefaultSteps = 1000;

struct TrainConfig {
  int64_t steps = 0;  ///< at most one of these three is above 0
  int64_t tokens = 0;
  double epochs = 0;
  int64_t batch_size = 32;
  int64_t accumulation = 1;
  int64_t tokens_per_step = 0;  ///< 0: batch_size * accumulation * context_length
  Precision precision = Precision::kAuto;
  bool activation_checkpointing = false;
  bool cuda_graph = false;
  int64_t eval_interval = 250;
  int64_t eval_tokens = 0;
  int64_t log_interval = 10;
  int64_t sample_interval = 0;
  std::string sample_prompt;
  int64_t sample_tokens = 200;
  double max_minutes = 0;
  OnSpike on_spike = OnSpike::kStop;
  double spike_z_score = 0;

  bool operator==(const TrainConfig&) const = default;

  /// Micro-batches per step: `accumulation`, or what tokens_per_step says.
  int64_t micro_batches(int64_t context_length) const {
    return tokens_per_step > 0 ? tokens_per_step / (batch_size * context_length) : accumulation;
  }
  /// Windows of one step: batch_size * micro_batches.
  int64_t windows_per_step(int64_t context_length) const {
    return batch_size * micro_batches(context_length);
  }
  /// N: `steps`, or `tokens` or `epochs` rounded up to whole steps. `windows_per_epoch` is the
  /// sampler's; throws ConfigError when epochs ask for more steps than can be counted.
  int64_t total_steps(int64_t context_length, int64_t windows_per_epoch) const;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("steps",
            self.steps,
            {.meaning = "length of the training, in optimizer steps. At most one of `steps`, "
                        "`tokens`, `epochs`; none: 1000 steps",
             .unit = "steps",
             .min = 0,
             .max = 1e12,
             .null_is_zero = true,
             .on_resume = OnResume::kMayChange});
    v.field("tokens",
            self.tokens,
            {.meaning = "length of the training in tokens, rounded up to whole steps",
             .unit = "tokens",
             .min = 0,
             .max = kMaxExactInteger,
             .null_is_zero = true,
             .on_resume = OnResume::kMayChange});
    v.field("epochs",
            self.epochs,
            {.meaning = "length of the training in passes over the text, rounded up to whole steps",
             .unit = "epochs",
             .min = 0,
             .max = 1e9,
             .null_is_zero = true,
             .on_resume = OnResume::kMayChange});
    v.field("batch_size",
            self.batch_size,
            {.meaning = "B: windows that go through the model together; several processes share "
                        "them out",
             .unit = "windows",
             .min = 1,
             .max = 1 << 20});
    v.field("accumulation",
            self.accumulation,
            {.meaning = "batches whose gradients are added up for one step",
             .unit = "batches",
             .min = 1,
             .max = 1 << 20});
    v.field("tokens_per_step",
            self.tokens_per_step,
            {.meaning = "another way to say `accumulation`: a multiple of `batch_size` * "
                        "`model.context_length`; 0: not given",
             .unit = "tokens",
             .min = 0,
             .max = 1e12,
             .null_is_zero = true});
    v.field("precision",
            self.precision,
            {.meaning = "`bf16` computes matrix products in bfloat16, weights stay float32; "
                        "`fp16` in half precision with a loss scale that adapts itself, for GPUs "
                        "without bfloat16; `auto`: on a GPU bf16, or fp16 where it has no bf16; on "
                        "a CPU bf16 where it has instructions for it and `model.n_embed` is at "
                        "least 64, else fp32"});
    v.field("activation_checkpointing",
            self.activation_checkpointing,
            {.meaning = "each block keeps its input only and is computed again in the backward "
                        "pass: less memory, about a third more time, the same result",
             .on_resume = OnResume::kMayChange});
    v.field("cuda_graph",
            self.cuda_graph,
            {.meaning = "on a GPU: record a whole step once and launch it as one CUDA graph from "
                        "then on, for models so small that launching takes longer than computing; "
                        "one process, no dropout. On a CPU it changes nothing",
             .on_resume = OnResume::kMayChange});
    v.field("eval_interval",
            self.eval_interval,
            {.meaning = "steps between evaluations; 0: only at the end",
             .unit = "steps",
             .min = 0,
             .max = 1e12,
             .on_resume = OnResume::kMayChange});
    v.field("eval_tokens",
            self.eval_tokens,
            {.meaning = "how much of the validation text an evaluation takes, in evenly spaced "
                        "windows, always the same; 0: all of it",
             .unit = "tokens",
             .min = 0,
             .max = kMaxExactInteger,
             .on_resume = OnResume::kMayChange});
    v.field("log_interval",
            self.log_interval,
            {.meaning = "steps between lines of metrics",
             .unit = "steps",
             .min = 1,
             .max = 1e12,
             .on_resume = OnResume::kMayChange});
    v.field("sample_interval",
            self.sample_interval,
            {.meaning = "steps between generated samples; 0: never",
             .unit = "steps",
             .min = 0,
             .max = 1e12,
             .on_resume = OnResume::kMayChange});
    v.field("sample_prompt",
            self.sample_prompt,
            {.meaning = "what a sample begins with; empty: the start token",
             .on_resume = OnResume::kMayChange});
    v.field("sample_tokens",
            self.sample_tokens,
            {.meaning = "length of a sample",
             .unit = "tokens",
             .min = 1,
             .max = 1 << 20,
             .on_resume = OnResume::kMayChange});
    v.field("max_minutes",
            self.max_minutes,
            {.meaning = "save and stop after so much time; 0: no limit",
             .unit = "minutes",
             .min = 0,
             .max = 1e9,
             .on_resume = OnResume::kMayChange});
    v.field(
        "on_spike",
        self.on_spike,
        {.meaning = "what follows a step whose loss or gradient is not finite, or is a spike by "
                    "`spike_z_score`: `stop` ends the run; `skip` leaves its update out (20 in "
                    "a row end the run); `rewind` goes back to the newest checkpoint and leaves "
                    "out the windows since then",
         .on_resume = OnResume::kMayChange});
    v.field("spike_z_score",
            self.spike_z_score,
            {.meaning = "a loss so many standard deviations above the mean of the last 50 or so "
                        "good steps is a spike, for example 6; 0: only what is not finite",
             .unit = "deviations",
             .min = 0,
             .max = 1e6,
             .on_resume = OnResume::kMayChange});
  }
};

struct CheckpointConfig {
  int64_t interval = 500;
  double interval_minutes = 0;
  int64_t keep_last = 2;
  bool keep_best = true;

  bool operator==(const CheckpointConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("interval",
            self.interval,
            {.meaning = "steps between checkpoints; 0: only at the end",
             .unit = "steps",
             .min = 0,
             .max = 1e12,
             .on_resume = OnResume::kMayChange});
    v.field("interval_minutes",
            self.interval_minutes,
            {.meaning = "a checkpoint also after so much time since the last; 0: by steps only",
             .unit = "minutes",
             .min = 0,
             .max = 1e9,
             .on_resume = OnResume::kMayChange});
    v.field("keep_last",
            self.keep_last,
            {.meaning = "how many of the newest checkpoints stay; 0: all",
             .unit = "checkpoints",
             .min = 0,
             .max = 1e6,
             .on_resume = OnResume::kMayChange});
    v.field("keep_best",
            self.keep_best,
            {.meaning = "the checkpoint of the lowest validation loss stays too",
             .on_resume = OnResume::kMayChange});
  }
};

/// What a run writes beside metrics.jsonl.
struct LoggingConfig {
  bool tensorboard = false;

  bool operator==(const LoggingConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("tensorboard",
            self.tensorboard,
            {.meaning = "also write an event file for TensorBoard, in the run's `tensorboard/`",
             .on_resume = OnResume::kMayChange});
  }
};

}  // namespace tril
