#pragma once
// The training loop. Everything it needs is handed to it; it owns model, optimizer and progress.

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tril/checkpoint/checkpoint.h"
#include "tril/checkpoint/run_folder.h"
#include "tril/config/run_config.h"
#include "tril/data/batch_loader.h"
#include "tril/data/training_data.h"
#include "tril/data/window_sampler.h"
#include "tril/distributed/buckets.h"
#include "tril/distributed/process_group.h"
#include "tril/model/gpt.h"
#include "tril/optim/schedule.h"
#include "tril/train/loss_scaler.h"
#include "tril/train/metrics.h"
#include "tril/train/parallel_optimizer.h"
#include "tril/train/progress.h"
#include "tril/train/spike_policy.h"
#include "tril/train/step_graph.h"

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
  /// `config` is resolved (model.vocab_size known); `folder` is locked by the caller. `group`: the
  /// processes that train together, each with a trainer of the same config; none: this one alone.
  /// Only the first writes to the folder; the others join() where it calls start() or resume().
  /// All references must outlive the trainer. ConfigError for more processes than windows.
  Trainer(const RunConfig& config,
          const ResolvedChoices& choices,
          const TrainingData& data,
          const RunFolder& folder,
          ProcessGroup* group = nullptr);

  /// Fresh weights from the seed, or what `fill` makes of them. The folder must hold no checkpoint
  /// (ConfigError).
  void start(const std::function<void(GPT&)>& fill = {});
  /// Weights, moments and progress of a checkpoint. The folder must hold no later one
  /// (ConfigError): go on from the latest, or in a folder of its own.
  void resume(const Checkpoint& checkpoint);
  /// All processes but the first: receives what that one starts or goes on with.
  void join();

  /// Trains to the last step, or until a signal or the time budget; always saves before it returns.
  /// Throws DivergedError, naming the first bad step (see SpikeGuard) that train.on_spike does not
  /// bear; the last checkpoint is then as it was.
  TrainOutcome run();

  /// One optimizer step: fetch, forward, loss, backward, clip, update. run() calls it; so does who
  /// wants to time it (bench). The model must be in training mode.
  void train_step();

  const CheckpointState& state() const { return state_; }
  /// After kSignal: the signal that stopped the run, in this process or in another.
  int stopped_by() const { return static_cast<int>(agreed_.signal); }
  int64_t total_steps() const { return total_steps_; }
  GPT& model() { return model_; }
  /// Seconds since the last call that steps have waited for other processes and the network.
  double take_exposed_seconds() { return optimizer_->take_exposed_seconds(); }
  /// For who reads or writes the model's weights from outside, in all processes at once: see
  /// ParallelOptimizer.
  std::shared_ptr<void> hold_weights() { return optimizer_->hold_weights(); }
  int64_t take_peak_weight_bytes() { return optimizer_->take_peak_weight_bytes(); }
  /// Of the optimizer's state in this process.
  int64_t moment_bytes() const { return optimizer_->moment_bytes(); }
  /// Open from start() or resume() on, in the first process: for events that others know about.
  MetricsWriter& metrics() { return *metrics_; }

 private:
  /// What of a step the device does; the same orders in each step.
  void compute_step();
  void log_step();
  void evaluate_now();
  void sample_now();
  void write_block_statistics();
  void save();

  /// What may be seen by one process and holds for all. The clock is the first process's.
  struct Votes {
    int64_t signal = 0;
    int64_t budget_used = 0;
    int64_t timed_save = 0;
  };
  Votes own_votes() const;
  /// The votes of all processes, on their way.
  struct Agreement {
    torch::Tensor votes;  ///< (3) int64
    Pending pending;
  };
  Agreement start_agreement() const;
  void agree(Agreement agreement);  ///< adds to agreed_
  bool is_first() const { return group_ == nullptr || group_->is_first(); }
  /// The first process's weights for all, and the proof that they arrived; they are held.
  void share_weights();
  /// Goes on from a stored state, with the choices of this process.
  void adopt(const CheckpointState& stored);
  void check_weights();
  void wait_until_saved();

  /// First window of a micro-step of the coming step; micro_step = micro_batches_: of the step
  /// after it.
  int64_t first_window(int64_t micro_step) const;
  /// Its own random numbers for each micro-step of each process.
  void seed_dropout(int64_t micro_step) const;
  Batch fetch(int64_t micro_step);
  /// Reads ahead what the micro-step after this one takes.
  void prefetch_after(int64_t micro_step);
  /// The coming step's batches, into memory that a recorded step reads.
  void fill_kept_batches();
  bool is_due(int64_t interval) const;
  bool evaluation_is_due() const;
  bool save_is_due() const;
  bool sample_is_due() const;
  bool check_is_due() const;
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

  ProcessGroup* group_;
  RowShare rows_;  ///< of each batch: this process's windows

  GPT model_;
  std::unique_ptr<ParallelOptimizer> optimizer_;
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
  LossScaler loss_scaler_;
  torch::Tensor rate_factor_;        ///< rate_tensor: of this step's learning rates
  torch::Tensor step_number_;        ///< 0-dim int64
  std::optional<StepGraph> graph_;   ///< train.cuda_graph
  std::vector<Batch> kept_batches_;  ///< with a graph: one for each micro-step
  int64_t rewinds_ = 0;
  double last_learning_rate_ = 0;
  Votes agreed_;  ///< since the last step began

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
