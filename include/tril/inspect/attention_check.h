#pragma once
// The check-list of attention: is this model, with these weights, the causal transformer it claims
// to be? Every line is a number with a limit, so that "pass" can be read and doubted.

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tril/config/model_config.h"
#include "tril/model/gpt.h"
#include "tril/model/head.h"

namespace tril {

/// One head's projections: weights (D, C), biases (D) or undefined.
struct HeadProjections {
  torch::Tensor query, key, value;
  torch::Tensor query_bias, key_bias, value_bias;
  bool shifted = false;  ///< the keys are one position late (n_shift_head)
};

/// What the check-list looks at: the parts of a model as functions. Made from a real model by
/// subject_of(); a test replaces one part by a broken one, and sees the line that finds it.
///   x   (B, T, C): what enters a block, before its first norm
struct AttentionSubject {
  ModelConfig config;
  std::function<torch::Tensor(const torch::Tensor& ids)> logits;    ///< (B, T) -> (B, T, V)
  std::function<torch::Tensor(const torch::Tensor& ids)> embedded;  ///< (B, T) -> (B, T, C)
  /// ln1 of a block: (B, T, C)
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> normalized;
  /// One head as the model computes it: weights (B, T, T), output (B, T, D).
  std::function<HeadAttention(int64_t block, int64_t head, const torch::Tensor& x)> head;
  std::function<HeadProjections(int64_t block, int64_t head)> projections;
  /// What `proj` reads, by either path: (B, T, C).
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> reference;
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> fused;
  /// The block as the model computes it, and its two residual branches, each added to its input.
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> block;
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> plus_attention;
  std::function<torch::Tensor(int64_t block, const torch::Tensor& x)> plus_feed_forward;
  /// Logits of a model of the same config with fresh weights: (B, T) -> (B, T, V)
  std::function<torch::Tensor(const torch::Tensor& ids)> fresh_logits;
};

/// The parts of a model on its device. `model` must outlive the subject.
AttentionSubject subject_of(GPT& model, uint64_t fresh_seed);

enum class CheckResult { kPass, kFail, kSkipped };

struct CheckLine {
  std::string name;   ///< "causal"
  std::string claim;  ///< "a later token changes no earlier output"
  CheckResult result = CheckResult::kPass;
  double value = 0;         ///< the measured number
  std::string limit = {};   ///< what it must be: "<= 1e-4"
  std::string detail = {};  ///< where the worst place is, and what it looks like; may be empty
};

/// Every line of the list, in a fixed order. `ids` (B, T), 1 <= T <= context_length, are real
/// tokens where there are some. A part that throws fails its line; nothing is thrown for a broken
/// model.
std::vector<CheckLine> check_attention(const AttentionSubject& subject, const torch::Tensor& ids);

/// Is a loss over a text whose exact entropy is known possible? An honest model undershoots the
/// floor of a total by t nats with probability <= e^-t; 20 nats are the limit.
CheckLine check_floor(double nats, double floor_nats, int64_t tokens);

}  // namespace tril
