#include "attention_recomputed.h"

#include <cmath>
#include <limits>

#include "tril/model/rotary.h"

namespace tril {
namespace {

constexpr double kSmallestWeight = 1e-12;  // below, an fp32 weight has lost its logarithm
constexpr double kExplained = 1e-2;

torch::Tensor project(const torch::Tensor& x,
                      const torch::Tensor& weight,
                      const torch::Tensor& bias) {
  torch::Tensor y = x.to(torch::kFloat64).matmul(weight.to(torch::kFloat64).t());  // (B, T, D)
  return bias.defined() ? y + bias.to(torch::kFloat64) : y;
}

/// q k^T without scale and mask: (B, T, T)
torch::Tensor raw_scores(const ModelConfig& config, const HeadProjections& p, const ReadBy& read) {
  torch::Tensor q = project(read.query, p.query, p.query_bias);
  torch::Tensor k = project(read.key, p.key, p.key_bias);
  if (config.qk_norm) {
    q = normalize_qk(q, config.norm_epsilon);
    k = normalize_qk(k, config.norm_epsilon);
  }
  if (config.positions == Positions::kRope) {
    RotaryTable table =
        make_rotary_table(config.context_length, config.head_size(), config.rope_base);
    table = {table.cos.to(q.device()), table.sin.to(q.device())};
    q = apply_rotary(q, table);
    k = apply_rotary(k, table);
  }
  if (p.shifted) k = shift_keys(k.unsqueeze(-3), 1).squeeze(-3);
  return q.matmul(k.transpose(-2, -1));
}

torch::Tensor allowed(const torch::Tensor& scores) {
  const int64_t t = scores.size(-1);
  return torch::ones({t, t}, scores.options().dtype(torch::kBool)).tril();
}

torch::Tensor masked_softmax(const torch::Tensor& scores) {
  return torch::softmax(
      scores.masked_fill(allowed(scores).logical_not(), -std::numeric_limits<double>::infinity()),
      -1);
}

std::optional<double> fit(const torch::Tensor& scores, const torch::Tensor& weights) {
  // In a row, log w_ij - log w_i0 = scale * (s_ij - s_i0).
  const torch::Tensor w = weights.to(torch::kFloat64);
  const torch::Tensor usable = allowed(scores)
                                   .logical_and(w > kSmallestWeight)
                                   .logical_and(w.narrow(-1, 0, 1) > kSmallestWeight);
  const torch::Tensor ds = torch::where(usable, scores - scores.narrow(-1, 0, 1), 0.0);
  const torch::Tensor log_w = w.clamp_min(kSmallestWeight).log();
  const torch::Tensor dw = torch::where(usable, log_w - log_w.narrow(-1, 0, 1), 0.0);
  const auto sum_ss = (ds * ds).sum().item<double>();
  // fp32 leaves 1e-7 in a logarithm: less than this in the scores tells nothing.
  constexpr double kLeastSpread = 1e-4;
  const auto n = usable.sum().item<double>();
  if (!(sum_ss > kLeastSpread * kLeastSpread * n)) return std::nullopt;
  return (ds * dw).sum().item<double>() / sum_ss;
}

}  // namespace

double max_abs(const torch::Tensor& x) {
  return x.numel() == 0 ? 0.0 : x.abs().max().item<double>();
}

std::optional<double> fitted_scale(const ModelConfig& config,
                                   const HeadProjections& projections,
                                   const ReadBy& read,
                                   const HeadAttention& found) {
  return fit(raw_scores(config, projections, read), found.weights);
}

double recomputed_difference(const ModelConfig& config,
                             const HeadProjections& projections,
                             const ReadBy& read,
                             const HeadAttention& found) {
  const torch::Tensor scores = raw_scores(config, projections, read);
  const double scale =
      fit(scores, found.weights).value_or(1 / std::sqrt(static_cast<double>(config.head_size())));
  const torch::Tensor weights = masked_softmax(scores * scale);
  const torch::Tensor even = masked_softmax(torch::zeros_like(scores));
  // A fresh head is nearly even: 1e-5 is what fp32 leaves of that.
  const double weights_off = max_abs(found.weights.to(torch::kFloat64) - weights) /
                             std::max(max_abs(weights - even), 1e-5);
  const torch::Tensor value = project(read.value, projections.value, projections.value_bias);
  const torch::Tensor output = found.weights.to(torch::kFloat64).matmul(value);
  const double output_off =
      max_abs(found.output.to(torch::kFloat64) - output) / std::max(max_abs(output), 1e-12);
  const double worst = std::max(weights_off, output_off);
  return std::isfinite(weights_off) && std::isfinite(output_off)
             ? worst
             : std::numeric_limits<double>::infinity();
}

std::string explain_inputs(const ModelConfig& config,
                           const HeadProjections& projections,
                           const torch::Tensor& normalized,
                           const torch::Tensor& raw,
                           const HeadAttention& found) {
  struct Case {
    ReadBy read;
    const char* explanation;
  };
  const Case cases[] = {
      {{raw, normalized, normalized}, ": query reads the input before the norm"},
      {{normalized, raw, normalized}, ": key reads the input before the norm"},
      {{normalized, normalized, raw}, ": value reads the input before the norm"},
      {{raw, raw, raw}, ": all three read the input before the norm"},
  };
  for (const Case& c : cases) {
    if (recomputed_difference(config, projections, c.read, found) < kExplained)
      return c.explanation;
  }
  return "";
}

}  // namespace tril
