#include "tril/train/parallel_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>

#include "distributed/ranks.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "tril/model/loss.h"

using namespace tril;
using namespace tril::testing;

namespace {

constexpr int64_t kRows = 12;

struct Outcome {
  std::vector<torch::Tensor> weights;
  std::vector<double> norms;
  int64_t moment_bytes = 0;
  int64_t weight_bytes = 0;  ///< the most at once
};

OptimizerConfig optimizer_config(OptimizerName name, double grad_clip) {
  OptimizerConfig config;
  config.name = name;
  config.grad_clip = grad_clip;
  config.learning_rate = 1e-2;
  config.layer_decay = 0.9;
  // Neither may blow up the last bits in which sums of another order differ: AdamW does where a
  // gradient is about epsilon, Muon where it multiplies in bfloat16.
  config.epsilon = 1e-4;
  config.matrix_precision = MatrixPrecision::kFp32;
  return config;
}

ModelConfig model_config() {
  ModelConfig config = tiny_config();
  config.bias = true;  // vectors inside the blocks too
  config.n_blocks = 4;
  return config;
}

/// Some steps of a tiny model, each rank on its rows.
Outcome train(ProcessGroup* group,
              const OptimizerConfig& config,
              Shard shard,
              int steps,
              const std::function<void(ParallelOptimizer&, GPT&, int step)>& after = {},
              const ModelConfig& model_config = ::model_config()) {
  GPT model = tiny_model(model_config);
  DistributedConfig distributed;
  distributed.shard = shard;
  distributed.bucket_megabytes = 0.01;
  const auto optimizer =
      make_parallel_optimizer(unique_parameters(*model), config, distributed, group);
  const RowShare rows =
      group == nullptr ? RowShare{0, kRows} : share_of_rows(kRows, group->rank(), group->size());
  model->train();
  model->set_activation_checkpointing(shard == Shard::kFull);
  model->set_weight_lender(optimizer->weight_lender());
  optimizer->take_peak_weight_bytes();
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor ids =
        (tiny_ids(kRows, 9) + step).remainder(32).narrow(0, rows.begin, rows.count);
    optimizer->zero_grad();
    optimizer->expect_gradients();
    training_loss(model,
                  ids.narrow(1, 0, 8),
                  ids.narrow(1, 1, 8),
                  static_cast<double>(rows.count) / static_cast<double>(kRows))
        .backward();
    const GradientNorm norm = optimizer->reduce_gradients(config.grad_clip, /*loss_scale=*/{});
    outcome.norms.push_back(norm.norm.item<double>());
    optimizer->step(rate_tensor(1.0, torch::kCPU), norm);
    if (after) after(*optimizer, model, step);
  }
  outcome.weight_bytes = optimizer->take_peak_weight_bytes();
  const auto held = optimizer->hold_weights();
  for (const auto& [name, tensor] : unique_parameters(*model)) {
    outcome.weights.push_back(tensor.detach().clone());
  }
  outcome.moment_bytes = optimizer->moment_bytes();
  return outcome;
}

bool equal(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.weights.size(); ++i) {
    if (!a.weights[i].equal(b.weights[i])) return false;
  }
  return true;
}

double largest_difference(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (size_t i = 0; i < a.weights.size(); ++i) {
    most = std::max(most, (a.weights[i] - b.weights[i]).abs().max().item<double>());
  }
  return most;
}

}  // namespace

TEST_CASE("several processes train as one does", "[distributed][train]") {
  for (const auto name : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    const auto config = optimizer_config(name, 1.0);
    const Outcome alone = train(nullptr, config, Shard::kNone, 5);
    for (const int64_t n : {2, 3, 5}) {
      for_each_rank(n, [&](ProcessGroup& group) {
        const Outcome outcome = train(&group, config, Shard::kNone, 5);
        TRIL_MUST(largest_difference(outcome, alone) < 1e-5);
        for (size_t i = 0; i < alone.norms.size(); ++i) {
          TRIL_MUST(std::abs(outcome.norms[i] - alone.norms[i]) < 1e-5 * alone.norms[i]);
        }
      });
    }
  }
}

TEST_CASE("a shared-out optimizer updates bit for bit as a copied one, without clipping",
          "[distributed][train]") {
  for (const auto name : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    const auto config = optimizer_config(name, /*grad_clip=*/0);
    for (const int64_t n : {2, 3, 4}) {
      for_each_rank(n, [&](ProcessGroup& group) {
        const Outcome copied = train(&group, config, Shard::kNone, 6);
        const Outcome shared = train(&group, config, Shard::kOptimizer, 6);
        // Muon multiplies batches of other sizes: equal but for rounding.
        if (name == OptimizerName::kAdamW) TRIL_MUST(equal(shared, copied));
        TRIL_MUST(largest_difference(shared, copied) < 1e-6);
        // Padding of slots is all that is not shared.
        TRIL_MUST(shared.moment_bytes < copied.moment_bytes / n + copied.moment_bytes / 5);
      });
    }
  }
}

TEST_CASE("shared-out weights are gathered unit by unit and train the same, a part at a time",
          "[distributed][train]") {
  struct Sizes {
    int64_t vocab, context;
  };
  // Tables of one piece; then larger than several blocks, not divisible by their pieces.
  for (const auto& [vocab, context] : {Sizes{100, 8}, Sizes{2999, 401}}) {
    for (const bool tied : {false, true}) {
      ModelConfig model = model_config();
      model.positions = Positions::kLearned;
      model.vocab_size = vocab;
      model.context_length = context;
      model.vocab_multiple = 100;
      model.head_bias = true;
      model.tie_embeddings = tied;
      int64_t all = 0, block = 0, largest = 0;
      for (const auto& [name, tensor] : unique_parameters(*tiny_model(model))) {
        const auto bytes = static_cast<int64_t>(tensor.nbytes());
        all += bytes;
        if (block_of(name) == 0) block += bytes;
        largest = std::max(largest, bytes);
      }
      const bool one_piece = vocab == 100;
      REQUIRE((one_piece ? largest < block : largest > 10 * block));
      for (const auto name : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
        OptimizerConfig config = optimizer_config(name, /*grad_clip=*/0);
        config.epsilon = 1e-3;  // an untied head of 3000 rows has gradients of about 1e-4
        for (const int64_t n : {2, 3, 5}) {
          for_each_rank(n, [&](ProcessGroup& group) {
            const Outcome whole = train(&group, config, Shard::kOptimizer, 6, {}, model);
            const Outcome shared = train(&group, config, Shard::kFull, 6, {}, model);
            TRIL_MUST(whole.weight_bytes >= all);
            TRIL_MUST(shared.weight_bytes <= all / n + 2 * block);
            // The loss over several pieces adds up the same numbers in another order.
            if (name == OptimizerName::kAdamW && one_piece) TRIL_MUST(equal(shared, whole));
            TRIL_MUST(largest_difference(shared, whole) < 1e-6);
          });
        }
      }
    }
  }
}

TEST_CASE("frozen embeddings are there whole, whatever is lent", "[distributed][train]") {
  ModelConfig model = model_config();
  model.vocab_size = 700;
  model.tie_embeddings = false;
  for (const std::string frozen : {"token_embedding.*", "lm_head.*"}) {
    OptimizerConfig config = optimizer_config(OptimizerName::kAdamW, /*grad_clip=*/0);
    config.frozen = frozen;
    config.epsilon = 1e-3;  // a few gradients here are 1e-4, and their last bits differ
    for_each_rank(2, [&](ProcessGroup& group) {
      const Outcome whole = train(&group, config, Shard::kOptimizer, 3, {}, model);
      const Outcome shared = train(&group, config, Shard::kFull, 3, {}, model);
      TRIL_MUST(largest_difference(shared, whole) < 1e-6);
    });
  }
}

TEST_CASE("a shared-out optimizer saves what a single process loads, and the other way",
          "[distributed][train]") {
  for (const auto name : {OptimizerName::kAdamW, OptimizerName::kMuon}) {
    const auto config = optimizer_config(name, /*grad_clip=*/0);
    ModelConfig model = model_config();
    model.vocab_size = 700;  // several pieces, with Shard::kFull
    // What one process has after two steps.
    std::vector<NamedTensor> alone;
    const auto keep = [&](ParallelOptimizer& optimizer, GPT&, int step) {
      if (step != 1) return;
      for (const auto& [tensor_name, tensor] : optimizer.state()) {
        alone.push_back({tensor_name, tensor.clone()});
      }
    };
    train(nullptr, config, Shard::kNone, 2, keep, model);
    const auto by_name = [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; };
    std::sort(alone.begin(), alone.end(), by_name);
    for (const Shard shard : {Shard::kOptimizer, Shard::kFull}) {
      std::mutex mutex;
      std::vector<NamedTensor> gathered;
      for_each_rank(3, [&](ProcessGroup& group) {
        const auto gather = [&](ParallelOptimizer& optimizer, GPT&, int step) {
          const auto state = optimizer.state();
          TRIL_MUST(state.empty() == !group.is_first());
          const std::lock_guard lock(mutex);
          if (step == 1 && group.is_first()) gathered = state;
        };
        train(&group, config, shard, 2, gather, model);
      });
      std::sort(gathered.begin(), gathered.end(), by_name);
      REQUIRE(alone.size() == gathered.size());
      for (size_t i = 0; i < alone.size(); ++i) {
        INFO(alone[i].name);
        CHECK(alone[i].name == gathered[i].name);
        REQUIRE(alone[i].tensor.sizes() == gathered[i].tensor.sizes());
        CHECK(alone[i].tensor.allclose(gathered[i].tensor, 1e-5, 1e-6));
      }
    }
  }
}

TEST_CASE("shared-out matrices of Muon do not change in a step that must change nothing",
          "[distributed][train]") {
  const auto config = optimizer_config(OptimizerName::kMuon, 0);
  for_each_rank(4, [&](ProcessGroup& group) {
    const auto spoil = [&](ParallelOptimizer& optimizer, GPT& model, int) {
      const auto weights = [&] {
        const auto held = optimizer.hold_weights();
        const torch::NoGradGuard no_grad;
        return model->forward(tiny_ids(2, 8));
      };
      const torch::Tensor before = weights();
      GradientNorm bad = gradient_norm_of(torch::full({}, INFINITY), 0);
      optimizer.step(rate_tensor(1.0, torch::kCPU), bad);
      TRIL_MUST(weights().equal(before));
    };
    train(&group, config, Shard::kFull, 1, spoil);
  });
}

TEST_CASE("squares of gradients are those of the sums, whoever has them", "[distributed][train]") {
  const auto config = optimizer_config(OptimizerName::kMuon, 0);
  for (const Shard shard : {Shard::kOptimizer, Shard::kFull}) {
    for_each_rank(3, [&](ProcessGroup& group) {
      std::vector<torch::Tensor> copied, shared;
      train(&group, config, Shard::kNone, 1, [&](ParallelOptimizer& optimizer, GPT&, int) {
        copied = optimizer.gradient_squares();
      });
      train(&group, config, shard, 1, [&](ParallelOptimizer& optimizer, GPT&, int) {
        shared = optimizer.gradient_squares();
      });
      TRIL_MUST(copied.size() == shared.size());
      for (size_t i = 0; i < copied.size(); ++i) TRIL_MUST(copied[i].allclose(shared[i], 1e-5));
    });
  }
}
