#include "tril/train/memory_estimate.h"

#include <algorithm>

#include "tril/evaluate/evaluator.h"
#include "tril/model/gpt.h"
#include "tril/model/loss.h"
#include "tril/optim/muon.h"

namespace tril {
namespace {

constexpr double kFloatBytes = 4;
constexpr double kHalfBytes = 2;  // bf16 and fp16
/// LibTorch's libraries and their work space on the CPU, measured with a model of no size.
constexpr double kRuntimeBytes = 165e6;

/// Numbers that one block keeps per token, in units of one number: what each part of Block::forward
/// saves for its backward pass. `narrow` ones are of the matrix precision, `wide` ones of fp32.
struct SavedPerToken {
  double wide = 0;
  double narrow = 0;
};

SavedPerToken saved_per_token(const ModelConfig& m) {
  const auto c = static_cast<double>(m.n_embed);
  const auto f = static_cast<double>(m.ffn_size());
  const auto t = static_cast<double>(m.context_length);
  const auto h = static_cast<double>(m.n_head);
  SavedPerToken saved;
  saved.wide += 2 * c;    // the residual stream, as ln1 and ln2 read it
  saved.narrow += 2 * c;  // what ln1 and ln2 give to the projections
  saved.narrow += 3 * c;  // q, k, v
  saved.narrow += c;      // attention's output
  saved.wide += h;        // log-sum-exp of each row
  if (m.attention == AttentionPath::kReference) {
    if (m.qk_norm) saved.narrow += 2 * c;
    if (m.positions == Positions::kRope) saved.narrow += 2 * c;
    saved.narrow += c + h * t;  // the weights; scores and mask are not kept
  }
  switch (m.activation) {
    case Activation::kRelu:
    case Activation::kGelu:
    case Activation::kGeluTanh:
      saved.narrow += 2 * f;  // before and after
      break;
    case Activation::kReluSquared:
      saved.narrow += 3 * f;  // before, relu, squared
      break;
    case Activation::kSwiglu:
      saved.narrow += 4 * f;  // gate, silu, up, product
      break;
  }
  if (m.dropout > 0) saved.wide += 2 * c;  // masks of both branches
  return saved;
}

/// Numbers in the matrices inside the blocks: what Muon takes.
double matrices_in_blocks(const ModelConfig& m) {
  const auto c = static_cast<double>(m.n_embed);
  const double up = m.activation == Activation::kSwiglu ? 2 : 1;
  const double ffn = (up + 1) * c * static_cast<double>(m.ffn_size());
  return static_cast<double>(m.n_blocks) * (4 * c * c + ffn);
}

}  // namespace

MemoryEstimate estimate_memory(const RunConfig& config, c10::ScalarType precision) {
  const ModelConfig& m = config.model;
  const auto parameters = static_cast<double>(parameter_count(m));
  const auto tokens = static_cast<double>(config.train.batch_size * m.context_length);
  const auto c = static_cast<double>(m.n_embed);
  const auto v = static_cast<double>(m.padded_vocab_size());
  const bool is_half = precision != c10::kFloat;
  const double matrix_bytes = is_half ? kHalfBytes : kFloatBytes;

  MemoryEstimate e;
  e.runtime = kRuntimeBytes;
  e.weights = kFloatBytes * parameters;
  e.gradients = kFloatBytes * parameters;
  e.moments = 2 * kFloatBytes * parameters;
  if (config.optimizer.name == OptimizerName::kMuon) {
    // One moment for the matrices inside the blocks. It works on one batch of them at a time:
    // gradients in a row, and the iteration's matrices.
    const double matrices = matrices_in_blocks(m);
    e.moments -= kFloatBytes * matrices;
    e.update = std::min(matrices, static_cast<double>(kMuonBatchElements)) * 3 * kFloatBytes;
  }
  const SavedPerToken saved = saved_per_token(m);
  const double per_block = tokens * (kFloatBytes * saved.wide + matrix_bytes * saved.narrow);
  const auto n_blocks = static_cast<double>(m.n_blocks);
  e.activations = config.train.activation_checkpointing
                      ? per_block * static_cast<double>(kept_blocks(m.n_blocks)) +
                            n_blocks * tokens * kFloatBytes * c  // inputs, and the last blocks
                      : per_block * n_blocks;
  e.activations += n_blocks * matrix_bytes * 3 * c * c;  // the heads' projections, side by side
  // Outside the blocks: the embedding sum, the final norm, gradients on their way back.
  e.activations += tokens * kFloatBytes * (4 * c + static_cast<double>(m.ffn_size()));
  if (is_half)
    e.activations += kHalfBytes * parameters;  // weights as the matrix products read them
  if (!config.data.validation.empty() || config.data.validation_fraction > 0) {
    const auto rows = static_cast<double>(std::max(kEvaluationTokens, m.context_length));
    e.evaluation =
        rows * (kFloatBytes * 4 * c + matrix_bytes * 2 * static_cast<double>(m.ffn_size()));
    const auto scored = static_cast<double>(scored_chunk_rows(m.padded_vocab_size()));
    e.evaluation += std::min(rows, scored) * v * (2 * kFloatBytes + matrix_bytes);
  }
  const double chunk_rows =
      std::min(tokens, static_cast<double>(loss_chunk_rows(m.padded_vocab_size())));
  e.loss = chunk_rows * v * (3 * kFloatBytes) + v * c * kFloatBytes;
  return e;
}

}  // namespace tril
