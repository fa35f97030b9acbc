#include "tril/train/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tril/base/error.h"
#include "tril/config/run_config.h"
#include "tril/optim/parameters.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {
namespace {

/// Keys that say nothing about weights, or that have a rule of their own.
constexpr std::array<std::string_view, 8> kFreeKeys = {"preset",
                                                       "context_length",
                                                       "dropout",
                                                       "ffn_width",
                                                       "ffn_multiplier",
                                                       "vocab_size",
                                                       "vocab_multiple",
                                                       "attention"};

OrderedJson model_json(const ModelConfig& model) {
  RunConfig config;
  config.model = model;
  return to_json(config)["model"];
}

bool holds_vocabulary(const std::string& name) {
  return name == "token_embedding.weight" || name.starts_with("lm_head.");
}

}  // namespace

void require_initial_weights_fit(const ModelConfig& stored,
                                 const ModelConfig& wanted,
                                 const std::string& origin) {
  std::string lines;
  const auto differ = [&](std::string_view key, const auto& has, const auto& wants) {
    lines += fmt::format("\n  model.{}: {} in the weights, {} wanted", key, has, wants);
  };
  const OrderedJson before = model_json(stored);
  const OrderedJson after = model_json(wanted);
  for (const auto& [key, value] : before.items()) {
    const bool free = std::find(kFreeKeys.begin(), kFreeKeys.end(), key) != kFreeKeys.end();
    if (!free && value != after[key]) differ(key, value.dump(), after[key].dump());
  }
  if (stored.ffn_size() != wanted.ffn_size()) {
    differ("ffn_width", stored.ffn_size(), wanted.ffn_size());
  }
  if (wanted.vocab_size < stored.vocab_size) {
    differ("vocab_size", stored.vocab_size, wanted.vocab_size);
  }
  if (stored.positions == Positions::kLearned && wanted.context_length > stored.context_length) {
    differ("context_length (learned positions end there)",
           stored.context_length,
           wanted.context_length);
  }
  if (lines.empty()) return;
  throw ConfigError(
      fmt::format("init_from {}: its weights do not fit this model:{}\nLeave these keys out: they "
                  "are then taken from the weights.",
                  origin,
                  lines));
}

std::shared_ptr<const Tokenizer> tokenizer_for_initial_weights(
    std::shared_ptr<const Tokenizer> stored, const std::string& wanted) {
  if (is_learned(wanted)) return stored;  // no tokenizer is named
  std::shared_ptr<const Tokenizer> named = make_tokenizer(wanted);
  bool same = named->vocab_size() >= stored->vocab_size();
  for (int64_t id = 0; same && id < stored->vocab_size(); ++id) {
    same = named->token_bytes(id) == stored->token_bytes(id);
  }
  if (same) return named;
  throw DataError(
      fmt::format("data.tokenizer {}: its ids do not mean what they mean in the weights of "
                  "init_from ({} tokenizer of {} ids). Leave data.tokenizer out, or name one that "
                  "only adds ids at the end",
                  wanted,
                  stored->kind(),
                  stored->vocab_size()));
}

void load_initial_weights(GPT& model, const ModelConfig& stored, const Checkpoint& checkpoint) {
  const torch::NoGradGuard no_grad;
  GPT source(stored);
  checkpoint.load_parameters(unique_parameters(*source));
  const auto from = source->named_parameters();
  for (const auto& [name, target] : unique_parameters(*model)) {
    torch::Tensor values = from[name].detach();
    torch::Tensor to = target.detach();
    if (name == "position_embedding.weight") {
      values = values.narrow(0, 0, to.size(0));
    } else if (holds_vocabulary(name)) {
      values = values.narrow(0, 0, stored.vocab_size);
      to.copy_(values.mean(/*dim=*/0, /*keepdim=*/true).expand_as(to));
      to = to.narrow(0, 0, stored.vocab_size);
    }
    to.copy_(values);
  }
}

}  // namespace tril
