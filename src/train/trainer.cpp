#include "tril/train/trainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "tril/base/counter_random.h"
#include "tril/base/error.h"
#include "tril/base/json.h"
#include "tril/evaluate/evaluator.h"
#include "tril/generate/generator.h"
#include "tril/model/autocast.h"
#include "tril/model/init.h"
#include "tril/model/loss.h"
#include "tril/model/step_phase.h"
#include "tril/optim/gradient_norm.h"
#include "tril/optim/parameters.h"
#include "tril/train/block_statistics.h"
#include "tril/train/machine.h"
#include "tril/train/stop_signal.h"

namespace tril {
namespace {

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

/// Each process takes its rows of every batch.
RowShare rows_of(const RunConfig& config, const ProcessGroup* group) {
  const int64_t rows = config.train.batch_size;
  if (group == nullptr) return {0, rows};
  if (group->size() > rows) {
    throw ConfigError(
        fmt::format("{} processes share the windows of a batch, and train.batch_size is {}. Give a "
                    "larger train.batch_size (with less accumulation, if the step shall stay as "
                    "large), or start at most {} processes",
                    group->size(),
                    rows,
                    rows));
  }
  return share_of_rows(rows, group->rank(), group->size());
}

GPT make_model(const ModelConfig& config, torch::Device device) {
  GPT model(config);
  model->to(device);
  return model;
}

}  // namespace

Trainer::Trainer(const RunConfig& config,
                 const ResolvedChoices& choices,
                 const TrainingData& data,
                 const RunFolder& folder,
                 ProcessGroup* group)
    : config_(config),
      choices_(choices),
      data_(data),
      folder_(folder),
      group_(group),
      rows_(rows_of(config, group)),
      model_(make_model(config.model, choices.device)),
      optimizer_(make_parallel_optimizer(
          unique_parameters(*model_), config.optimizer, config.distributed, group)),
      sampler_(data.windows(config.data.sampling, config.model.context_length, config.seed)),
      batches_(data.train, sampler_, rows_.count, config.model.context_length, choices.device),
      micro_batches_(config.train.micro_batches(config.model.context_length)),
      total_steps_(
          config.train.total_steps(config.model.context_length, sampler_.windows_per_epoch())),
      schedule_{.name = config.schedule.name,
                .warmup_steps = config.schedule.warmup_steps,
                .total_steps = total_steps_,
                .decay_steps = config.schedule.resolved_decay_steps(total_steps_),
                .min_factor = config.schedule.min_factor(config.optimizer.learning_rate)},
      guard_(config.train, choices.device),
      loss_scaler_(choices.precision, choices.device),
      rate_factor_(rate_tensor(1.0, choices.device)),
      step_number_(torch::zeros({}, torch::dtype(torch::kInt64).device(choices.device))),
      progress_({.total_steps = total_steps_,
                 .flops_per_token = flops_per_token(config.model),
                 .peak_flops = choices.peak_flops}) {
  if (config.train.cuda_graph) {
    if (group != nullptr) {
      throw ConfigError("train.cuda_graph is for one process: set train.cuda_graph=false");
    }
    graph_.emplace(choices.device);
  }
  model_->set_activation_checkpointing(config.train.activation_checkpointing);
  model_->set_weight_lender(optimizer_->weight_lender());
  state_.precision = precision_name(choices.precision);
  state_.attention = enum_name(config.model.attention);
  state_.threads = choices.threads;
  state_.processes = group == nullptr ? 0 : group->size();
  state_.train_fingerprint = data.train_fingerprint;
  state_.validation_fingerprint = data.validation_fingerprint;
}

void Trainer::start(const std::function<void(GPT&)>& fill) {
  folder_.require_none_after(0);
  if (group_ != nullptr) group_->broadcast_text("");
  const auto held = optimizer_->hold_weights();
  initialize(model_, config_.seed);
  if (fill) fill(model_);
  share_weights();
  metrics_ =
      std::make_unique<MetricsWriter>(folder_.metrics_path(), /*last_step=*/0, tensorboard_path());
}

void Trainer::resume(const Checkpoint& checkpoint) {
  const CheckpointState stored = checkpoint.state();
  folder_.require_none_after(stored.step);
  if (group_ != nullptr) group_->broadcast_text(dump_json(state_to_json(stored)));
  {
    const auto held = optimizer_->hold_weights();
    checkpoint.load_parameters(unique_parameters(*model_));
    share_weights();
  }
  optimizer_->load(&checkpoint);
  adopt(stored);
  metrics_ =
      std::make_unique<MetricsWriter>(folder_.metrics_path(), state_.step, tensorboard_path());
}

void Trainer::join() {
  const std::string text = group_->broadcast_text("");
  {
    const auto held = optimizer_->hold_weights();
    share_weights();
  }
  if (text.empty()) return;  // a fresh start
  optimizer_->load(nullptr);
  const std::string origin = "the state that rank 0 sent";
  adopt(state_from_json(parse_json(text, origin, FileRole::kCheckpoint), origin));
}

void Trainer::adopt(const CheckpointState& stored) {
  const CheckpointState resolved = std::exchange(state_, stored);
  state_.threads = resolved.threads;
  state_.processes = resolved.processes;
  state_.attention = resolved.attention;
  state_.precision = resolved.precision;
  guard_.restore(state_);
  loss_scaler_.restore(state_);
  saved_ = {state_.step, state_.evaluated_step};
}

void Trainer::share_weights() {
  if (group_ == nullptr) return;
  for (const auto& [name, tensor] : unique_parameters(*model_)) group_->broadcast(tensor);
  check_weights();
}

void Trainer::check_weights() {
  const auto held = optimizer_->hold_weights();
  const auto weights = tensors_of(unique_parameters(*model_));
  require_equal_everywhere(*group_, weights, fmt::format("the weights after step {}", state_.step));
}

Trainer::Votes Trainer::own_votes() const {
  const auto now = Clock::now();
  const auto passed = [&](double minutes, Clock::time_point since) {
    return is_first() && minutes > 0 && seconds(now - since) >= 60 * minutes;
  };
  return {.signal = stop_signal(),
          .budget_used = passed(config_.train.max_minutes, run_start_),
          .timed_save = passed(config_.checkpoint.interval_minutes, last_save_)};
}

Trainer::Agreement Trainer::start_agreement() const {
  if (group_ == nullptr) return {};
  const Votes own = own_votes();
  Agreement agreement{torch::tensor({own.signal, own.budget_used, own.timed_save}, torch::kInt64),
                      {}};
  agreement.pending = group_->start_all_reduce(agreement.votes, Combine::kMax);
  return agreement;
}

/// Alone, a process heeds what has come up by now; with others, what was known when they asked.
void Trainer::agree(Agreement agreement) {
  Votes votes;
  if (group_ == nullptr) {
    votes = own_votes();
  } else {
    agreement.pending.wait();
    const auto* values = agreement.votes.const_data_ptr<int64_t>();
    votes = {.signal = values[0], .budget_used = values[1], .timed_save = values[2]};
  }
  agreed_.signal = std::max(agreed_.signal, votes.signal);
  agreed_.budget_used |= votes.budget_used;
  agreed_.timed_save |= votes.timed_save;
}

/// srun --kill-on-bad-exit, mpirun and torchrun end all processes once one has left with 143: none
/// may while the first is saving.
void Trainer::wait_until_saved() {
  if (group_ == nullptr) return;
  torch::Tensor saved = torch::zeros({1}, torch::kInt64);
  group_->all_reduce(saved, Combine::kMax);
}

TrainOutcome Trainer::run() {
  run_start_ = last_log_ = last_save_ = Clock::now();
  logged_step_ = state_.step;
  model_->train();
  if (evaluation_is_due() && state_.evaluated_step < state_.step) {
    evaluate_now();  // a signal had cut it short
    save();
  }
  while (state_.step < total_steps_) {
    agreed_ = {};
    Agreement agreement = start_agreement();  // on its way while the step computes
    train_step();
    if (config_.train.on_spike == OnSpike::kRewind && guard_.fatal_step() != 0) {
      agree(std::move(agreement));
      rewind();
      continue;
    }
    if (is_due(config_.train.log_interval)) log_step();
    if (is_due(config_.train.eval_interval)) write_block_statistics();
    if (evaluation_is_due()) evaluate_now();
    if (sample_is_due()) sample_now();

    if (group_ != nullptr && check_is_due()) check_weights();
    agree(std::move(agreement));
    const bool stop = agreed_.signal != 0 || agreed_.budget_used != 0;
    if (save_is_due() || stop) save();
    if (stop) wait_until_saved();
    if (state_.step == total_steps_) break;
    if (stop) {
      progress_.summary();
      return agreed_.signal != 0 ? TrainOutcome::kSignal : TrainOutcome::kBudget;
    }
  }
  progress_.summary();
  // A signal that cut the last evaluation short has left something to do.
  const bool complete = !evaluation_is_due() || state_.evaluated_step == state_.step;
  return complete ? TrainOutcome::kFinished : TrainOutcome::kSignal;
}

void Trainer::train_step() {
  const int64_t step = state_.step + 1;
  const double factor = schedule_factor(schedule_, step);
  rate_factor_.fill_(factor);
  step_number_.fill_(step);
  if (graph_) {
    fill_kept_batches();
    graph_->run([this] { compute_step(); });
  } else {
    compute_step();
  }
  last_learning_rate_ = factor * config_.optimizer.learning_rate;
  state_.step = step;
  state_.windows_seen += config_.train.batch_size * micro_batches_;
  state_.tokens_seen += config_.train.batch_size * micro_batches_ * config_.model.context_length;
}

void Trainer::compute_step() {
  optimizer_->zero_grad();
  // The mean over all windows of the step, wherever they are: equal shares weigh equally.
  const double scale = static_cast<double>(rows_.count) /
                       static_cast<double>(config_.train.batch_size * micro_batches_);
  torch::Tensor loss;
  for (int64_t micro_step = 0; micro_step < micro_batches_; ++micro_step) {
    const Batch batch = fetch(micro_step);
    if (config_.model.dropout > 0) seed_dropout(micro_step);
    torch::Tensor micro_loss;
    {
      const AutocastGuard autocast(choices_.device.type(), choices_.precision);
      micro_loss = training_loss(model_, batch.inputs, batch.targets, scale);
    }
    if (micro_step + 1 == micro_batches_) optimizer_->expect_gradients();
    {
      const StepPhase phase(kPhaseBackward);
      micro_loss.backward(loss_scaler_.scale());
    }
    if (!graph_) prefetch_after(micro_step);
    loss = loss.defined() ? loss + micro_loss.detach() : micro_loss.detach();
  }

  const StepPhase phase(kPhaseOptimizer);
  GradientNorm gradient =
      optimizer_->reduce_gradients(config_.optimizer.grad_clip, loss_scaler_.scale());
  if (group_ != nullptr) group_->all_reduce(loss, Combine::kSum);
  const torch::Tensor overflow = loss_scaler_.update(loss, gradient.found_inf);
  gradient.found_inf = guard_.observe(loss, gradient.found_inf, step_number_, overflow);
  optimizer_->step(rate_factor_, gradient);
  last_loss_ = loss;
  last_grad_norm_ = gradient.norm;
}

int64_t Trainer::first_window(int64_t micro_step) const {
  return state_.windows_seen + micro_step * config_.train.batch_size + rows_.begin;
}

void Trainer::seed_dropout(int64_t micro_step) const {
  const auto rank = static_cast<uint64_t>(group_ == nullptr ? 0 : group_->rank());
  torch::manual_seed(random_bits(config_.seed,
                                 RandomStream::kDropout,
                                 static_cast<uint64_t>(state_.step + 1),
                                 static_cast<uint64_t>(micro_step) | rank << 32));
}

Batch Trainer::fetch(int64_t micro_step) {
  const StepPhase phase(kPhaseData);
  return graph_ ? kept_batches_[static_cast<size_t>(micro_step)]
                : batches_.load(first_window(micro_step));
}

void Trainer::prefetch_after(int64_t micro_step) {
  // Not beyond the last step: its windows may be damaged, and nobody asked for them.
  if (state_.step + 1 < total_steps_ || micro_step + 1 < micro_batches_) {
    batches_.prefetch(first_window(micro_step + 1));
  }
}

void Trainer::fill_kept_batches() {
  const StepPhase phase(kPhaseData);
  for (int64_t micro_step = 0; micro_step < micro_batches_; ++micro_step) {
    const Batch batch = batches_.load(first_window(micro_step));
    if (std::ssize(kept_batches_) == micro_step) {
      kept_batches_.push_back({batch.inputs.clone(), batch.targets.clone()});
    } else {
      Batch& kept = kept_batches_[static_cast<size_t>(micro_step)];
      kept.inputs.copy_(batch.inputs);
      kept.targets.copy_(batch.targets);
    }
    prefetch_after(micro_step);
  }
}

bool Trainer::is_due(int64_t interval) const {
  return state_.step == total_steps_ || (interval > 0 && state_.step % interval == 0);
}

bool Trainer::evaluation_is_due() const {
  return data_.validation && state_.step > 0 && is_due(config_.train.eval_interval);
}

bool Trainer::save_is_due() const {
  return is_due(config_.checkpoint.interval) || (best_not_saved_ && config_.checkpoint.keep_best) ||
         agreed_.timed_save != 0;
}

bool Trainer::sample_is_due() const {
  return config_.train.sample_interval > 0 && is_due(config_.train.sample_interval);
}

bool Trainer::check_is_due() const {
  const int64_t interval = config_.distributed.check_interval;
  return interval > 0 && state_.step % interval == 0;
}

void Trainer::log_step() {
  require_finite();  // waits for the device: everything before is included in the time
  if (const int64_t n = guard_.take_bad_steps(); n > 0) {
    progress_.clear();
    spdlog::warn("step {}: {} bad steps since the last line were left out (train.on_spike skip)",
                 state_.step,
                 n);
  }
  if (const int64_t n = loss_scaler_.take_overflows(); n > 0) {
    progress_.clear();
    spdlog::info(
        "step {}: {} steps since the last line were left out: their gradients overflowed "
        "fp16; the loss scale is {:.0f} now",
        state_.step,
        n,
        loss_scaler_.value());
  }
  if (!is_first()) return;
  const auto now = Clock::now();
  const double busy_seconds = seconds(now - last_log_ - paused_);
  const int64_t tokens_per_step = state_.tokens_seen / state_.step;
  const StepMetrics metrics{
      .step = state_.step,
      .tokens = state_.tokens_seen,
      .loss = last_loss_.item<double>(),
      .learning_rate = last_learning_rate_,
      .grad_norm = last_grad_norm_.item<double>(),
      .tokens_per_second =
          static_cast<double>((state_.step - logged_step_) * tokens_per_step) / busy_seconds,
      .elapsed_seconds = seconds(now - run_start_),
      .memory_bytes = memory_in_use_bytes(choices_.device),
      .loss_scale = loss_scaler_.is_on() ? std::optional(loss_scaler_.value()) : std::nullopt};
  metrics_->write(metrics);
  progress_.step(metrics);
  last_log_ = now;
  paused_ = {};
  logged_step_ = state_.step;
}

void Trainer::evaluate_now() {
  const auto start = Clock::now();
  const auto held = optimizer_->hold_weights();  // processes have unequal numbers of batches
  const auto result =
      evaluate(model_,
               *data_.validation,
               *data_.tokenizer,
               {.max_tokens = config_.train.eval_tokens,
                .precision = choices_.precision,
                .should_stop = [] { return stop_signal() != 0; },
                .on_progress =
                    [&](int64_t done, int64_t total) {
                      progress_.activity(
                          fmt::format("evaluating {} %", 100 * done / std::max<int64_t>(total, 1)));
                    },
                .group = group_});
  paused_ += Clock::now() - start;
  if (!result) {  // a signal: evaluated_step stays behind, so resume does it again
    agree(start_agreement());
    return;
  }
  if (!std::isfinite(result->loss())) {
    throw DivergedError(
        fmt::format("the validation loss after step {} is not finite", state_.step));
  }
  state_.evaluated_step = state_.step;
  state_.validation_loss = result->loss();
  const bool is_best =
      !state_.best_validation_loss || result->loss() < *state_.best_validation_loss;
  if (is_best) {
    state_.best_validation_loss = result->loss();
    state_.best_step = state_.step;
    best_not_saved_ = true;
  }
  const EvalMetrics metrics{.step = state_.step,
                            .validation_loss = result->loss(),
                            .tokens = result->tokens,
                            .bits_per_byte = result->bits_per_byte(),
                            .floor = floor_per_token()};
  if (!is_first()) return;
  metrics_->write(metrics);
  progress_.evaluation(metrics, result->whole ? metrics.floor : -1, is_best);
}

void Trainer::write_block_statistics() {
  const auto start = Clock::now();
  const auto held = optimizer_->hold_weights();
  const BlockStatistics statistics = block_statistics(
      unique_parameters(*model_), optimizer_->gradient_squares(), last_grad_norm_.item<double>());
  if (!is_first()) return;
  metrics_->write("blocks",
                  state_.step,
                  {{"names", statistics.names},
                   {"weight_rms", statistics.weight_rms},
                   {"grad_norm", statistics.grad_norm}});
  paused_ += Clock::now() - start;
}

std::filesystem::path Trainer::tensorboard_path() const {
  if (!config_.logging.tensorboard) return {};
  return folder_.root() / "tensorboard" / "events.out.tfevents.tril";
}

double Trainer::floor_per_token() const {
  if (!data_.validation_floor_nats) return -1;
  return *data_.validation_floor_nats / static_cast<double>(data_.validation->size() - 1);
}

void Trainer::sample_now() {
  const auto start = Clock::now();
  const auto held = optimizer_->hold_weights();
  if (!is_first()) return;
  std::vector<int64_t> prompt;
  for (const int32_t id : data_.tokenizer->encode(config_.train.sample_prompt))
    prompt.push_back(id);
  if (prompt.empty()) prompt.push_back(data_.tokenizer->start_token());
  GenerateOptions options;
  options.max_new_tokens = config_.train.sample_tokens;
  options.seed = config_.seed;
  options.sample_index = state_.step;  // its own random numbers: training is not disturbed
  options.should_stop = [] { return stop_signal() != 0; };
  Generation sample;
  try {
    sample = generate(model_, *data_.tokenizer, prompt, options);
  } catch (const CheckpointError& error) {  // an output that is not finite: here, of this training
    throw DivergedError(fmt::format("the sample after step {}: {}", state_.step, error.what()));
  }
  progress_.sample(state_.step, config_.train.sample_prompt + sample.text);
  metrics_->write(
      "sample", state_.step, {{"prompt", config_.train.sample_prompt}, {"text", sample.text}});
  paused_ += Clock::now() - start;
}

void Trainer::require_finite() {
  const int64_t step = guard_.fatal_step();
  if (step == 0) return;
  progress_.clear();
  const std::string what =
      config_.train.on_spike == OnSpike::kSkip
          ? fmt::format("step {}: more than {} bad steps in a row", step, SpikeGuard::kMostInARow)
      : config_.train.spike_z_score > 0
          ? fmt::format("step {}: the loss or the gradient is not finite, or the loss is a spike",
                        step)
          : fmt::format("step {}: the loss or the gradient is not finite", step);
  throw DivergedError(what +
                      ". The last checkpoint is untouched. Try a lower optimizer.learning_rate, "
                      "more schedule.warmup_steps or optimizer.grad_clip, or go on from it with "
                      "--set train.on_spike=skip or rewind");
}

void Trainer::rewind() {
  constexpr int64_t kMostRewinds = 10;
  const int64_t bad_step = state_.step;
  const int64_t next_window = state_.windows_seen;
  const auto newest = is_first() ? folder_.latest() : std::nullopt;
  bool there_is_one = newest.has_value();
  if (group_ != nullptr) there_is_one = !group_->broadcast_text(newest ? "yes" : "").empty();
  if (!there_is_one) {
    throw DivergedError(fmt::format(
        "step {}: bad, and there is no checkpoint to go back to (train.on_spike rewind). Try a "
        "lower optimizer.learning_rate, or a smaller checkpoint.interval",
        bad_step));
  }
  if (++rewinds_ > kMostRewinds) {
    throw DivergedError(fmt::format(
        "step {}: bad again after {} rewinds. The last checkpoint is untouched. Try a lower "
        "optimizer.learning_rate",
        bad_step,
        kMostRewinds));
  }
  if (is_first()) {
    resume(Checkpoint::open(newest->folder));
  } else {
    join();
  }
  state_.windows_seen = next_window;
  logged_step_ = state_.step;
  progress_.clear();
  spdlog::warn("step {}: not finite or a spike; back to step {}, and on with other windows",
               bad_step,
               state_.step);
}

/// A last update can ruin the weights although its gradient was finite (a huge learning rate): such
/// weights never become a checkpoint.
void Trainer::require_finite_weights() {
  const auto weights = tensors_of(unique_parameters(*model_));
  if (gradient_norm(weights, /*max_norm=*/0).found_inf.item<double>() == 0) return;
  progress_.clear();
  throw DivergedError(
      fmt::format("step {}: the weights have become too large to compute with. The last checkpoint "
                  "is untouched. Try a lower optimizer.learning_rate",
                  state_.step));
}

void Trainer::save() {
  const auto start = Clock::now();
  require_finite();
  const auto path = folder_.checkpoint_folder(state_.step);
  const SavedState current{state_.step, state_.evaluated_step};
  if (saved_ != current) {
    const auto held = optimizer_->hold_weights();
    require_finite_weights();
    progress_.activity("saving");
    guard_.store(state_);
    loss_scaler_.store(state_);
    const auto optimizer_state = optimizer_->state();  // all processes, where it is shared out
    if (is_first()) {
      save_checkpoint(path,
                      {.parameters = unique_parameters(*model_),
                       .optimizer = optimizer_state,
                       .state = state_,
                       .config = to_json(config_),
                       .tokenizer = data_.tokenizer->to_json()});
    }
    progress_.clear();
    spdlog::debug("saved {}", path.string());
    saved_ = current;
  }
  const bool has_best = config_.checkpoint.keep_best && state_.best_step > 0;
  if (is_first()) {
    folder_.prune(config_.checkpoint.keep_last,
                  has_best ? std::optional(state_.best_step) : std::nullopt);
  }
  best_not_saved_ = false;
  last_save_ = Clock::now();
  paused_ += last_save_ - start;
}

}  // namespace tril
