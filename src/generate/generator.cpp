#include "tril/generate/generator.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "tril/base/counter_random.h"
#include "tril/base/utf8.h"
#include "tril/model/evaluation_mode.h"

namespace tril {
namespace {

using OnText = std::function<void(std::string_view)>;

/// One text as it grows: draws tokens and turns them into text.
class GrowingText {
 public:
  GrowingText(const Tokenizer& tokenizer,
              const std::vector<int64_t>& prompt,
              const GenerateOptions& options,
              int64_t sample_index,
              const OnText& on_text)
      : tokenizer_(tokenizer),
        options_(options),
        sample_index_(sample_index),
        on_text_(on_text),
        ids_(prompt),
        sampler_(options.sampling),
        stops_(options.stop) {
    TORCH_CHECK(!prompt.empty(), "generate: the prompt has no ids");
    ids_.reserve(prompt.size() +
                 static_cast<size_t>(std::min<int64_t>(options.max_new_tokens, int64_t{1} << 20)));
  }

  /// All ids, the prompt's first.
  const std::vector<int64_t>& ids() const { return ids_; }
  bool ended() const {
    return ended_ || static_cast<int64_t>(result_.ids.size()) >= options_.max_new_tokens;
  }

  /// Draws the next token from the logits (V).
  void add_token(std::span<const float> logits) {
    // Ids above the tokenizer's vocabulary (a padded or larger model vocabulary) mean nothing.
    const auto n_ids = std::min(logits.size(), static_cast<size_t>(tokenizer_.vocab_size()));
    const auto known = logits.first(n_ids);
    const uint64_t bits = random_bits(options_.seed,
                                      RandomStream::kGenerate,
                                      static_cast<uint64_t>(sample_index_),
                                      result_.ids.size());
    const int64_t id = sampler_.draw(known, ids_, scale_to_unit(bits));
    if (options_.top_log_probabilities >= 0) {
      result_.log_probabilities.push_back(
          log_probabilities(known, id, options_.top_log_probabilities));
    }
    ids_.push_back(id);
    result_.ids.push_back(id);
    if (id == tokenizer_.end_of_text()) {
      result_.reason = StopReason::kEndOfText;
      ended_ = true;
      return;
    }
    emit(stops_.push(characters_.push(tokenizer_.token_bytes(id))));
    if (stops_.found()) {
      result_.reason = StopReason::kStop;
      ended_ = true;
    }
  }

  Generation finish() {
    if (!stops_.found()) {
      emit(stops_.push(characters_.finish()));
      emit(stops_.finish());
      if (stops_.found()) result_.reason = StopReason::kStop;
    }
    return std::move(result_);
  }

 private:
  void emit(const std::string& text) {
    if (text.empty()) return;
    result_.text += text;
    if (on_text_) on_text_(text);
  }

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  int64_t sample_index_;
  const OnText& on_text_;
  std::vector<int64_t> ids_;
  Sampler sampler_;
  Utf8Stream characters_;
  StopMatcher stops_;
  Generation result_;
  bool ended_ = false;
};

/// The last `context` ids.
std::span<const int64_t> window_of(const std::vector<int64_t>& ids, int64_t context) {
  const size_t n = std::min(ids.size(), static_cast<size_t>(context));
  return std::span(ids).last(n);
}

/// The logits of the next token through LibTorch: on any device, with or without a cache.
class TorchLogits {
 public:
  TorchLogits(GPT& model, int64_t n_expected, bool use_cache)
      : model_(model), context_length_(model->config().context_length) {
    if (use_cache) cache_ = model->make_cache(1, std::min(context_length_, n_expected));
  }

  /// Logits (V) after the last of `ids`, valid until the next call.
  std::span<const float> operator()(const std::vector<int64_t>& ids) {
    const auto n = static_cast<int64_t>(ids.size());
    const int64_t first = std::max<int64_t>(0, n - context_length_);
    torch::Tensor hidden;
    if (cache_.blocks.empty()) {
      hidden = model_->forward_hidden(rows(ids, first, n));
    } else if (first == 0) {
      hidden = model_->forward_cached(rows(ids, cache_.length, n), cache_);
    } else {  // the window has moved: no kept state is valid
      cache_.clear();
      hidden = model_->forward_cached(rows(ids, first, n), cache_);
    }
    logits_ = model_
                  ->logits(hidden.select(1, hidden.size(1) - 1))[0]  // (1, T, C) -> (V)
                  .to(torch::kFloat32)
                  .to(torch::kCPU)
                  .contiguous();
    return {logits_.const_data_ptr<float>(), static_cast<size_t>(logits_.numel())};
  }

 private:
  /// ids [first, last) as (1, last - first) on the model's device.
  torch::Tensor rows(const std::vector<int64_t>& ids, int64_t first, int64_t last) const {
    return torch::tensor(at::ArrayRef<int64_t>(ids.data() + first, ids.data() + last))
        .unsqueeze(0)
        .to(model_->token_embedding->weight.device());
  }

  GPT& model_;
  int64_t context_length_;
  KvCache cache_;
  torch::Tensor logits_;
};

bool engine_can_run(GPT& model, const GenerateOptions& options) {
  return options.use_cache && model->token_embedding->weight.device().is_cpu();
}

std::unique_ptr<Engine> make_engine(GPT& model,
                                    const GenerateOptions& options,
                                    int64_t sequences,
                                    int64_t longest_prompt) {
  const int64_t context = model->config().context_length;
  const int64_t threads = options.threads > 0 ? options.threads : at::get_num_threads();
  return std::make_unique<Engine>(
      model,
      EngineOptions{
          .format = options.weights,
          .sequences = sequences,
          .capacity = std::min(context, std::min(context, longest_prompt) + options.max_new_tokens),
          .threads = threads});
}

bool wants_stop(const GenerateOptions& options) {
  return options.should_stop && options.should_stop();
}

/// One text at a time, through LibTorch.
Generation generate_with_torch(GPT& model,
                               const Tokenizer& tokenizer,
                               const Prompt& prompt,
                               const GenerateOptions& options,
                               const OnText& on_text) {
  GrowingText text(tokenizer, prompt.ids, options, prompt.sample_index, on_text);
  TorchLogits next_logits(
      model, static_cast<int64_t>(prompt.ids.size()) + options.max_new_tokens, options.use_cache);
  while (!text.ended() && !wants_stop(options)) text.add_token(next_logits(text.ids()));
  return text.finish();
}

/// Several texts side by side in the engine's sequences.
class GenerationBatch {
 public:
  GenerationBatch(Engine& engine,
                  int64_t context,
                  const Tokenizer& tokenizer,
                  const std::vector<Prompt>& prompts,
                  const GenerateOptions& options,
                  const OnText& on_text)
      : engine_(engine),
        context_(context),
        tokenizer_(tokenizer),
        prompts_(prompts),
        options_(options),
        on_text_(on_text) {}

  std::vector<Generation> run(int64_t at_once) {
    slots_.resize(static_cast<size_t>(at_once));
    results_.resize(prompts_.size());
    while (!wants_stop(options_)) {
      if (!begin_texts()) break;
      step();
    }
    for (Slot& slot : slots_) end(slot);
    if (options_.timing != nullptr) *options_.timing = timing_;
    results_.resize(next_);
    return std::move(results_);
  }

 private:
  struct Slot {
    std::unique_ptr<GrowingText> text;
    size_t prompt = 0;
    bool needs_reading = false;  ///< its window is to be read as a whole
  };

  /// Fills free slots with the next prompts; false when nothing is left to do.
  bool begin_texts() {
    bool any = false;
    for (Slot& slot : slots_) {
      if (slot.text && slot.text->ended()) end(slot);
      if (!slot.text && next_ < prompts_.size()) {
        slot.prompt = next_++;
        const Prompt& prompt = prompts_[slot.prompt];
        slot.text = std::make_unique<GrowingText>(
            tokenizer_, prompt.ids, options_, prompt.sample_index, on_text_);
        slot.needs_reading = true;
      }
      any |= slot.text != nullptr;
    }
    return any;
  }

  void end(Slot& slot) {
    if (!slot.text) return;
    results_[slot.prompt] = slot.text->finish();
    slot.text.reset();
  }

  /// One token for every text.
  void step() {
    const auto begin = Clock::now();
    steps_.clear();
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.text || slot.text->ended()) continue;
      const auto sequence = static_cast<int64_t>(i);
      // A full window slides: what is kept had seen the token that leaves.
      if (slot.needs_reading || engine_.length(sequence) == context_) {
        const auto window = window_of(slot.text->ids(), context_);
        timing_.prompt_tokens += std::ssize(window);
        slot.text->add_token(engine_.read_prompt(sequence, window));
        slot.needs_reading = false;
      } else {
        steps_.push_back({sequence, slot.text->ids().back()});
      }
    }
    const auto after_prompts = Clock::now();
    timing_.prompt_seconds += seconds(after_prompts - begin);
    if (steps_.empty()) return;
    engine_.step(steps_);
    for (size_t i = 0; i < steps_.size(); ++i) {
      slots_[static_cast<size_t>(steps_[i].sequence)].text->add_token(engine_.logits(i));
    }
    timing_.step_tokens += std::ssize(steps_);
    timing_.step_seconds += seconds(Clock::now() - after_prompts);
  }

  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

  Engine& engine_;
  int64_t context_;
  const Tokenizer& tokenizer_;
  const std::vector<Prompt>& prompts_;
  const GenerateOptions& options_;
  const OnText& on_text_;
  std::vector<Slot> slots_;
  std::vector<EngineStep> steps_;
  std::vector<Generation> results_;
  GenerationTiming timing_;
  size_t next_ = 0;
};

std::vector<Generation> generate_prompts(GPT& model,
                                         const Tokenizer& tokenizer,
                                         const std::vector<Prompt>& prompts,
                                         const GenerateOptions& options,
                                         int64_t at_once,
                                         const OnText& on_text) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);
  if (!engine_can_run(model, options)) {
    std::vector<Generation> results;
    for (const Prompt& prompt : prompts) {
      if (!results.empty() && wants_stop(options)) break;
      results.push_back(generate_with_torch(model, tokenizer, prompt, options, on_text));
    }
    return results;
  }
  size_t longest = 1;
  for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.ids.size());
  at_once = std::clamp<int64_t>(at_once, 1, std::max<int64_t>(1, std::ssize(prompts)));
  const auto engine = make_engine(model, options, at_once, static_cast<int64_t>(longest));
  return GenerationBatch(
             *engine, model->config().context_length, tokenizer, prompts, options, on_text)
      .run(at_once);
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kStop:
      return "stop";
    case StopReason::kEndOfText:
      return "end_of_text";
    case StopReason::kLength:
      return "length";
  }
  return "?";
}

Generation generate(GPT& model,
                    const Tokenizer& tokenizer,
                    const std::vector<int64_t>& prompt,
                    const GenerateOptions& options,
                    const OnText& on_text) {
  auto results = generate_prompts(
      model, tokenizer, {{prompt, options.sample_index}}, options, /*at_once=*/1, on_text);
  return results.empty() ? Generation{} : std::move(results[0]);
}

std::vector<Generation> generate_all(GPT& model,
                                     const Tokenizer& tokenizer,
                                     const std::vector<Prompt>& prompts,
                                     const GenerateOptions& options,
                                     int64_t at_once) {
  return generate_prompts(model, tokenizer, prompts, options, at_once, {});
}

StopMatcher::StopMatcher(std::vector<std::string> stop_texts) : stop_texts_(std::move(stop_texts)) {
  std::erase_if(stop_texts_, [](const std::string& text) { return text.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (found_) return {};
  held_ += text;
  // The stop text that is complete first, and of those the longest: then the result does not depend
  // on how the text is cut into pieces.
  size_t begin = std::string::npos;
  size_t end = std::string::npos;
  for (const auto& stop : stop_texts_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t stop_end = at + stop.size();
    if (stop_end < end || (stop_end == end && at < begin)) {
      begin = at;
      end = stop_end;
    }
  }
  if (begin != std::string::npos) {
    found_ = true;
    return held_.substr(0, begin);
  }
  // Hold back the longest end of the text that begins a stop text.
  size_t n_held = 0;
  for (const auto& stop : stop_texts_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > n_held; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) n_held = n;
    }
  }
  std::string certain = held_.substr(0, held_.size() - n_held);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::finish() {
  return found_ ? std::string() : std::exchange(held_, {});
}

}  // namespace tril
