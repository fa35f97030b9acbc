// What the estimate counts; whether it is true on a real process is scripts/bench/memory.py's.

#include "tril/train/memory_estimate.h"

#include "support/catch.h"
#include "tril/config/run_config.h"

namespace tril {
namespace {

RunConfig wide_config() {
  RunConfig config;
  config.model.vocab_size = 2048;
  config.data.validation_fraction = 0.1;
  return config;
}

TEST_CASE("the memory of an evaluation grows with the vocabulary, up to a chunk", "[train]") {
  RunConfig config = wide_config();
  const double wide = estimate_memory(config, torch::kFloat32).evaluation;
  config.model.vocab_size = 1024;
  // 1024 rows of logits as they come, as float32, and of their logarithms: 12 bytes for each.
  CHECK(wide - estimate_memory(config, torch::kFloat32).evaluation == Approx(1024.0 * 1024 * 12));
  config.model.vocab_size = 2048;
  config.data.validation_fraction = 0;
  CHECK(estimate_memory(config, torch::kFloat32).evaluation == 0);
}

TEST_CASE("Muon works where activations were: the larger of the two counts", "[train]") {
  RunConfig config = wide_config();
  config.optimizer.name = OptimizerName::kMuon;
  MemoryEstimate estimate = estimate_memory(config, torch::kFloat32);
  CHECK(estimate.update > 0);
  const double peak = estimate.peak();
  estimate.update = 0;
  CHECK(estimate.peak() == peak);
  estimate.update = estimate.activations + estimate.loss + 1e8;
  CHECK(estimate.peak() == Approx(peak + 1e8));
}

TEST_CASE("checkpointing keeps a quarter of the blocks, and the input of all", "[train]") {
  RunConfig config = wide_config();
  config.model.n_blocks = 8;
  const double kept = estimate_memory(config, torch::kFloat32).activations;
  config.train.activation_checkpointing = true;
  const double again = estimate_memory(config, torch::kFloat32).activations;
  config.model.n_blocks = 4;  // half of the blocks, half of the kept ones
  const double half_again = estimate_memory(config, torch::kFloat32).activations;
  config.train.activation_checkpointing = false;
  const double half_kept = estimate_memory(config, torch::kFloat32).activations;
  const double inputs = 4.0 * static_cast<double>(config.train.batch_size) * 128 * 128;
  const double weights = 4.0 * 3 * 128 * 128;  // of a block's heads, side by side
  const double block = (kept - half_kept) / 4 - weights;
  CHECK(again - half_again == Approx(block + 4 * (inputs + weights)));
}

}  // namespace
}  // namespace tril
