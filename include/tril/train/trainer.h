#pragma once
// The training loop. Everything it needs is handed to it; it owns model, optimizer and progress.

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "tril/checkpoint/checkpoint.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/config/run_config.h"
#include "tril/data/batch_loader.h"
#include "tril/data/training_data.h"
#include "tril/data/window_sampler.h"
#include "tril/model/gpt.h"
#include "tril/optim/optimizer.h"
#include "tril/optim/schedule.h"
#include "tril/train/metrics.h"
#include "tril/train/progress.h"
#include "tril/train/spike_policy.h"

namespace tril {

/// What `auto` became, and where to compute. Stored with a run; resume uses the same.
struct ResolvedChoices {
  torch::Device device = torch::kCPU;
  torch::ScalarType precision = torch::kFloat32;  ///< of matrix products; weights are fp32
  int64_t threads = 1;
  double peak_flops = 0;  ///< per second, of matrix products here; 0: unknown. For display only
};

enum class TrainOutcome {
  kFinished,  ///< all steps done
  kSignal,    ///< SIGINT or SIGTERM; saved
  kBudget,    ///< train.max_minutes used; saved
};

class Trainer {
 public:
  /// `config` is resolved (model.vocab_size known); `folder` is locked by the caller. All
  /// references must outlive the trainer.
  Trainer(const RunConfig& config,
          const ResolvedChoices& choices,
          const TrainingData& data,
          const RunFolder& folder);

  /// Fresh weights from the seed. The folder must hold no checkpoint (ConfigError).
  void start();
  /// Weights, moments and progress of a checkpoint. The folder must hold no later one
  /// (ConfigError): go on from the latest, or in a folder of its own.
  void resume(const Checkpoint& checkpoint);

  /// Trains to the last step, or until a signal or the time budget; always saves before it returns.
  /// Throws DivergedError, naming the first bad step (see SpikeGuard) that train.on_spike does not
  /// bear; the last checkpoint is then as it was.
  TrainOutcome run();

  /// One optimizer step: fetch, forward, loss, backward, clip, update. run() calls it; so does who
  /// wants to time it (bench). The model must be in training mode.
  void train_step();

  const CheckpointState& state() const { return state_; }
  int64_t total_steps() const { return total_steps_; }
  GPT& model() { return model_; }
  /// Open from start() or resume() on: for events that others know about.
  MetricsWriter& metrics() { return *metrics_; }

 private:
  void log_step();
  void evaluate_now();
  void sample_now();
  void write_block_statistics();
  void save();

  /// First window of a micro-step of the coming step; micro_step = micro_batches_: of the step
  /// after it.
  int64_t first_window(int64_t micro_step) const;
  Batch fetch(int64_t micro_step);
  bool is_due(int64_t interval) const;
  bool evaluation_is_due() const;
  bool save_is_due() const;
  std::filesystem::path tensorboard_path() const;
  void require_finite();
  /// After a bad step: the state of the newest checkpoint, and windows that come after that step.
  void rewind();
  void require_finite_weights();
  double floor_per_token() const;

  const RunConfig& config_;
  const ResolvedChoices& choices_;
  const TrainingData& data_;
  const RunFolder& folder_;

  GPT model_;
  Optimizer optimizer_;
  WindowSampler sampler_;
  BatchLoader batches_;
  int64_t micro_batches_;
  int64_t total_steps_;
  Schedule schedule_;
  CheckpointState state_;

  // Of the last step; tensors stay on the device until a line is logged.
  torch::Tensor last_loss_;       ///< 0-dim, mean nats per target token of the step
  torch::Tensor last_grad_norm_;  ///< 0-dim
  SpikeGuard guard_;
  int64_t rewinds_ = 0;
  double last_learning_rate_ = 0;

  std::unique_ptr<MetricsWriter> metrics_;
  Progress progress_;
  bool best_not_saved_ = false;

  /// What the newest checkpoint holds.
  struct SavedState {
    int64_t step = 0;
    int64_t evaluated_step = 0;
    bool operator==(const SavedState&) const = default;
  };
  SavedState saved_;

  using Clock = std::chrono::steady_clock;
  Clock::time_point run_start_, last_log_, last_save_;
  Clock::duration paused_{};  ///< since the last line: evaluations, samples, saves
  int64_t logged_step_ = 0;
};

}  // namespace tril
