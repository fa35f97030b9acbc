#include "tril/inspect/attention_check.h"

#include <fmt/format.h>

#include <cmath>

#include "attention_recomputed.h"
#include "tril/base/counter_random.h"

namespace tril {
namespace {

constexpr double kRowSumLimit = 1e-5;      // fp32 round-off of a sum of up to T numbers
constexpr double kEqualPathsLimit = 1e-4;  // relative; two orders of the same fp32 sums
constexpr double kRecomputedLimit = 1e-2;  // relative to what the attention does beyond the mean
constexpr double kScaleLimit = 1e-2;       // relative
constexpr double kFreshLossLimit = 0.05;   // relative
constexpr double kFloorNats = 20;

/// The largest |a - b| over the largest |b|; infinite when anything is not finite or the shapes
/// differ.
double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  const double difference = max_abs(a.to(torch::kFloat64) - b.to(torch::kFloat64));
  if (!std::isfinite(difference)) return INFINITY;
  return difference / std::max(max_abs(b), 1e-12);
}

/// Collects the worst number of a line, and where it was found.
class Worst {
 public:
  void see(double value, const std::string& where) {
    if (std::isnan(value)) value = INFINITY;
    if (seen_ && value <= value_) return;
    seen_ = true;
    value_ = value;
    where_ = where;
  }
  CheckLine line(const std::string& name, const std::string& claim, double limit) const {
    const bool pass = value_ <= limit;
    return {name,
            claim,
            pass ? CheckResult::kPass : CheckResult::kFail,
            value_,
            limit == 0 ? "= 0" : fmt::format("<= {:g}", limit),
            pass ? "" : where_};
  }

 private:
  bool seen_ = false;
  double value_ = 0;
  std::string where_;
};

std::string place(int64_t block, int64_t head) {
  return fmt::format("block {}, head {}", block, head);
}

/// Runs a check; a part that throws fails the line with its message.
template <class Check>
CheckLine guarded(const char* name, const Check& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    return {name,
            "can be computed",
            CheckResult::kFail,
            0,
            "no error",
            what.substr(0, what.find('\n'))};
  }
}

CheckLine check_width(const AttentionSubject& s, const torch::Tensor& x) {
  const ModelConfig& c = s.config;
  CheckLine line{"width", "C = H x D, and the heads' outputs side by side are C wide"};
  line.limit = fmt::format("= C = {} = {} heads x {}", c.n_embed, c.n_head, c.n_embed / c.n_head);
  int64_t width = 0;
  for (int64_t h = 0; h < c.n_head; ++h) width += s.head(0, h, x).output.size(-1);
  const int64_t concatenated = s.reference(0, x).size(-1);
  line.value = static_cast<double>(width);
  const bool pass = c.n_embed % c.n_head == 0 && width == c.n_embed && concatenated == c.n_embed;
  if (!pass) {
    line.result = CheckResult::kFail;
    line.detail = fmt::format("C modulo H is {}, the heads give {}, concatenated {}",
                              c.n_embed % c.n_head,
                              width,
                              concatenated);
  }
  return line;
}

CheckLine check_context(const AttentionSubject& s, const torch::Tensor& ids) {
  CheckLine line{"context", "T is within the context, and one token more is refused"};
  line.value = static_cast<double>(ids.size(1));
  line.limit = fmt::format("<= {}", s.config.context_length);
  const torch::Tensor longer = torch::zeros({1, s.config.context_length + 1}, ids.options());
  bool refused = false;
  try {
    s.logits(longer);
  } catch (const std::exception&) {
    refused = true;
  }
  if (ids.size(1) > s.config.context_length) {
    line.result = CheckResult::kFail;
    line.detail = "the text is longer than the context";
  } else if (!refused) {
    line.result = CheckResult::kFail;
    line.detail = fmt::format("{} tokens were taken without a word", s.config.context_length + 1);
  }
  return line;
}

/// Changes the tokens from a position on, and looks at the outputs before it.
CheckLine check_causal(const AttentionSubject& s, const torch::Tensor& ids) {
  const char* claim = "changing later tokens moves no earlier output";
  const int64_t n_positions = ids.size(1);
  const int64_t vocab = s.config.vocab_size;
  if (n_positions < 2 || vocab < 2) {
    return {"causal", claim, CheckResult::kSkipped, 0, "", "needs two positions and two tokens"};
  }
  const torch::Tensor before = s.logits(ids);
  const double size = std::max(max_abs(before), 1e-12);
  Worst worst;
  bool moved = false;
  for (const int64_t at : {int64_t{1}, n_positions / 2, n_positions - 1}) {
    torch::Tensor changed = ids.clone();
    const int64_t n_later = n_positions - at;
    changed.narrow(1, at, n_later).add_(1 + at % (vocab - 1)).remainder_(vocab);
    const torch::Tensor after = s.logits(changed);
    worst.see(max_abs(after.narrow(1, 0, at) - before.narrow(1, 0, at)) / size,
              fmt::format("tokens from position {} on changed an output before it", at));
    moved |= max_abs(after.narrow(1, at, n_later) - before.narrow(1, at, n_later)) > 0;
  }
  CheckLine line = worst.line("causal", claim, kEqualPathsLimit);
  if (line.result == CheckResult::kPass && !moved) {
    line.result = CheckResult::kFail;
    line.detail = "the outputs depend on no token at all";
  }
  return line;
}

/// Walks the blocks: for each, calls `visit(block, what enters it)`.
template <class Visit>
void for_each_block(const AttentionSubject& s, const torch::Tensor& ids, const Visit& visit) {
  torch::Tensor x = s.embedded(ids);
  for (int64_t block = 0; block < s.config.n_blocks; ++block) {
    visit(block, x);
    if (block + 1 < s.config.n_blocks) x = s.block(block, x);
  }
}

template <class Visit>
void for_each_head(const AttentionSubject& s, const torch::Tensor& ids, const Visit& visit) {
  for_each_block(s, ids, [&](int64_t block, const torch::Tensor& x) {
    for (int64_t head = 0; head < s.config.n_head; ++head) visit(block, head, x);
  });
}

CheckLine check_rows(const AttentionSubject& s, const torch::Tensor& ids) {
  Worst worst;
  for_each_head(s, ids, [&](int64_t block, int64_t head, const torch::Tensor& x) {
    worst.see(max_abs(s.head(block, head, x).weights.sum(-1) - 1), place(block, head));
  });
  return worst.line("rows", "each row of weights sums to 1", kRowSumLimit);
}

CheckLine check_triangle(const AttentionSubject& s, const torch::Tensor& ids) {
  Worst worst;
  for_each_head(s, ids, [&](int64_t block, int64_t head, const torch::Tensor& x) {
    worst.see(max_abs(s.head(block, head, x).weights.triu(1)), place(block, head));
  });
  return worst.line("triangle", "every weight above the diagonal is exactly 0", 0);
}

CheckLine check_same_input(const AttentionSubject& s, const torch::Tensor& ids) {
  Worst worst;
  for_each_head(s, ids, [&](int64_t block, int64_t head, const torch::Tensor& x) {
    const torch::Tensor input = s.normalized(block, x);
    const HeadAttention found = s.head(block, head, x);
    const HeadProjections p = s.projections(block, head);
    const ReadBy same{input, input, input};
    const double difference = recomputed_difference(s.config, p, same, found);
    std::string where = place(block, head);
    if (difference > kRecomputedLimit) where += explain_inputs(s.config, p, input, x, found);
    worst.see(difference, where);
  });
  return worst.line(
      "same input", "query, key and value read the same normalised input", kRecomputedLimit);
}

CheckLine check_scale(const AttentionSubject& s, const torch::Tensor& ids) {
  const char* claim = "scores are divided by sqrt(D): fitted scale x sqrt(D) = 1";
  const double sqrt_d = std::sqrt(static_cast<double>(s.config.head_size()));
  Worst worst;
  double shown = 1;
  int64_t n_fitted = 0;
  for_each_head(s, ids, [&](int64_t block, int64_t head, const torch::Tensor& x) {
    const torch::Tensor input = s.normalized(block, x);
    const auto scale = fitted_scale(
        s.config, s.projections(block, head), {input, input, input}, s.head(block, head, x));
    if (!scale) return;
    ++n_fitted;
    const double off = std::abs(*scale * sqrt_d - 1);
    worst.see(off, fmt::format("{}: {:.4f}", place(block, head), *scale * sqrt_d));
    if (std::abs(shown - 1) <= off) shown = *scale * sqrt_d;
  });
  if (n_fitted == 0) {
    return {"scale", claim, CheckResult::kSkipped, 0, "", "all scores are alike: nothing to fit"};
  }
  CheckLine line = worst.line("scale", claim, kScaleLimit);
  line.value = shown;
  line.limit = fmt::format("1 +- {:g}", kScaleLimit);
  return line;
}

CheckLine check_order(const AttentionSubject& s, const torch::Tensor& ids) {
  const int64_t d = s.config.head_size();
  Worst worst;
  for_each_block(s, ids, [&](int64_t block, const torch::Tensor& x) {
    const torch::Tensor all = s.reference(block, x);
    for (int64_t head = 0; head < s.config.n_head; ++head) {
      const torch::Tensor own = s.head(block, head, x).output;
      worst.see(relative_difference(all.narrow(-1, head * d, d), own), place(block, head));
    }
  });
  return worst.line("order", "head h fills columns h*D to (h+1)*D", kEqualPathsLimit);
}

CheckLine check_fused(const AttentionSubject& s, const torch::Tensor& ids) {
  Worst worst;
  for_each_block(s, ids, [&](int64_t block, const torch::Tensor& x) {
    worst.see(relative_difference(s.fused(block, x), s.reference(block, x)),
              fmt::format("block {}", block));
  });
  return worst.line(
      "fused", "the fast path equals head by head, on these weights", kEqualPathsLimit);
}

CheckLine check_residual(const AttentionSubject& s, const torch::Tensor& ids) {
  Worst worst;
  for_each_block(s, ids, [&](int64_t block, const torch::Tensor& x) {
    const torch::Tensor by_hand = s.plus_feed_forward(block, s.plus_attention(block, x));
    worst.see(relative_difference(s.block(block, x), by_hand), fmt::format("block {}", block));
  });
  return worst.line("residual", "x + attn(ln1(x)), then x + ffn(ln2(x))", kEqualPathsLimit);
}

CheckLine check_fresh_loss(const AttentionSubject& s, const torch::Tensor& ids) {
  const auto vocab = static_cast<double>(s.config.vocab_size);
  std::vector<int64_t> random;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const uint64_t bits = random_bits(1, RandomStream::kCorpus, static_cast<uint64_t>(i));
    random.push_back(
        static_cast<int64_t>(scale_to_range(bits, static_cast<uint64_t>(s.config.vocab_size))));
  }
  const torch::Tensor targets =
      torch::tensor(random, torch::kInt64).to(ids.device()).view(ids.sizes());
  const torch::Tensor log_p = torch::log_softmax(s.fresh_logits(ids).to(torch::kFloat64), -1);
  CheckLine line{"fresh loss", "with fresh weights the loss of random targets is near ln V"};
  line.value = -log_p.gather(-1, targets.unsqueeze(-1)).mean().item<double>();
  const double expected = std::log(vocab);
  line.limit = fmt::format("{:.4f} +- {:g} %", expected, 100 * kFreshLossLimit);
  const double off = std::abs(line.value - expected);
  if (!(off <= kFreshLossLimit * expected + 1e-6)) line.result = CheckResult::kFail;
  return line;
}

CheckLine check_finite(const AttentionSubject& s, const torch::Tensor& ids) {
  const torch::Tensor bad = s.logits(ids).isfinite().logical_not().sum();
  Worst worst;
  worst.see(bad.item<double>(), "the weights are damaged or the run diverged");
  return worst.line("finite", "every output is a finite number: count of others", 0);
}

}  // namespace

std::vector<CheckLine> check_attention(const AttentionSubject& s, const torch::Tensor& ids) {
  const torch::NoGradGuard no_grad;
  return {guarded("width", [&] { return check_width(s, s.embedded(ids)); }),
          guarded("context", [&] { return check_context(s, ids); }),
          guarded("finite", [&] { return check_finite(s, ids); }),
          guarded("causal", [&] { return check_causal(s, ids); }),
          guarded("triangle", [&] { return check_triangle(s, ids); }),
          guarded("rows", [&] { return check_rows(s, ids); }),
          guarded("scale", [&] { return check_scale(s, ids); }),
          guarded("same input", [&] { return check_same_input(s, ids); }),
          guarded("order", [&] { return check_order(s, ids); }),
          guarded("fused", [&] { return check_fused(s, ids); }),
          guarded("residual", [&] { return check_residual(s, ids); }),
          guarded("fresh loss", [&] { return check_fresh_loss(s, ids); })};
}

CheckLine check_floor(double nats, double floor_nats, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  CheckLine line{"floor", "the validation loss is not below what the corpus leaves open"};
  line.value = nats / n;
  line.limit = fmt::format(">= {:.4f} (less {:g} nats in all)", floor_nats / n, kFloorNats);
  if (!(nats >= floor_nats - kFloorNats)) {
    line.result = CheckResult::kFail;
    line.detail = "the model sees what it should predict, or the mean is wrong";
  }
  return line;
}

}  // namespace tril
