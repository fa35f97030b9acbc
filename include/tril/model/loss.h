#pragma once
// Cross-entropy in mean nats per target token: the plain form, and one that never holds all logits.

#include <torch/torch.h>

#include "tril/model/gpt.h"

namespace tril {

/// The plain form: logits (B, T, V), targets (B, T) int64 -> scalar mean of -log
/// softmax(logits)[target].
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets);

/// The head and the cross-entropy together, in chunks of rows; forward and gradient in one pass, so
/// the (B*T, V) logits never exist. Same result as the plain form (tests: value and gradients).
///   hidden   (B, T, C)
///   weight   (padded V, C); rows from vocab_size on take no probability
///   bias     (padded V) or undefined
///   targets  (B, T) int64 in [0, vocab_size)
///   scale    factor on the result, 1 / accumulation in training
///   lender   lends weight and bias, in one piece or in several; none: they are there
///   returns  scalar float: scale * mean nats per target token
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias,
                                   const torch::Tensor& targets,
                                   int64_t vocab_size,
                                   double scale = 1.0,
                                   WeightLender* lender = nullptr);

/// Loss of each target in nats, without gradient: (B, T) ids and targets -> (B, T) float.
torch::Tensor token_losses(GPT& model, const torch::Tensor& ids, const torch::Tensor& targets);

/// Training loss of a batch: the model's states, then linear_cross_entropy.
torch::Tensor training_loss(GPT& model,
                            const torch::Tensor& ids,
                            const torch::Tensor& targets,
                            double scale = 1.0);

/// Rows per chunk for a vocabulary: 512 at V = 50 304 (measured best there), more for small ones.
int64_t loss_chunk_rows(int64_t padded_vocab_size);

/// The same for token_losses(), which keeps no gradient and gains nothing by more.
int64_t scored_chunk_rows(int64_t padded_vocab_size);

/// The factor that gradients of logits carry while they are multiplied: `scale`, but in fp16, where
/// 1 / (B*T) would push them below the smallest number, one of the chunk's rows alone, with which
/// sums over them stay below the largest. What is made of them is multiplied by scale / factor, in
/// fp32.
double logit_gradient_factor(torch::ScalarType type, int64_t rows, double scale);

}  // namespace tril
