#include "tril/generate/generator.h"

#include <algorithm>

#include "tril/base/counter_random.h"
#include "tril/base/utf8.h"
#include "tril/model/evaluation_mode.h"

namespace tril {
namespace {

/// The logits of the next token, with or without a cache.
class NextTokenLogits {
 public:
  NextTokenLogits(GPT& model, int64_t n_expected, bool use_cache)
      : model_(model), context_length_(model->config().context_length) {
    if (use_cache) cache_ = model->make_cache(1, std::min(context_length_, n_expected));
  }

  /// Logits (V) after the last of `ids`, float on the CPU.
  torch::Tensor operator()(const std::vector<int64_t>& ids) {
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
    return model_
        ->logits(hidden.select(1, hidden.size(1) - 1))[0]  // (1, T, C) -> (V)
        .to(torch::kFloat32)
        .to(torch::kCPU)
        .contiguous();
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
};

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
                    const std::function<void(std::string_view)>& on_text) {
  TORCH_CHECK(!prompt.empty(), "generate: the prompt has no ids");
  const torch::NoGradGuard no_grad;
  const EvaluationMode evaluation_mode(model);

  std::vector<int64_t> ids = prompt;
  const auto n_prompt = static_cast<int64_t>(prompt.size());
  NextTokenLogits next_logits(model, n_prompt + options.max_new_tokens, options.use_cache);
  Utf8Stream characters;
  StopMatcher stops(options.stop);
  Generation result;
  const auto emit = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (on_text) on_text(text);
  };

  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (options.should_stop && options.should_stop()) break;
    const torch::Tensor logits = next_logits(ids);
    // Ids above the tokenizer's vocabulary (a padded or larger model vocabulary) mean nothing.
    const auto n_ids = static_cast<size_t>(std::min(logits.numel(), tokenizer.vocab_size()));
    const uint64_t bits = random_bits(options.seed,
                                      RandomStream::kGenerate,
                                      static_cast<uint64_t>(options.sample_index),
                                      static_cast<uint64_t>(i));
    const int64_t id = sample_token(
        {logits.const_data_ptr<float>(), n_ids}, ids, options.sampling, scale_to_unit(bits));
    ids.push_back(id);
    result.ids.push_back(id);
    if (id == tokenizer.end_of_text()) {
      result.reason = StopReason::kEndOfText;
      break;
    }
    emit(stops.push(characters.push(tokenizer.token_bytes(id))));
    if (stops.found()) {
      result.reason = StopReason::kStop;
      break;
    }
  }
  if (!stops.found()) {
    emit(stops.push(characters.finish()));
    emit(stops.finish());
    if (stops.found()) result.reason = StopReason::kStop;
  }
  return result;
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
