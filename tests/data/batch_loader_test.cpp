// Batches by window number: what is read, and that reading ahead changes nothing.

#include "tril/data/batch_loader.h"

#include "support/catch.h"
#include "support/tiny_run.h"

using namespace tril;
using namespace tril::testing;

namespace {

constexpr int64_t kContext = 8, kBatch = 3;

struct Loaded {
  TempDir folder;
  TrainingData data = tiny_data(folder.path(), kTinyText);
  WindowSampler sampler{Sampling::kShuffle, data.train.size(), kContext, /*seed=*/5};

  BatchLoader loader(torch::Device device) const {
    return {data.train, sampler, kBatch, kContext, device};
  }
};

bool same(const Batch& a, const Batch& b) {
  return torch::equal(a.inputs.cpu(), b.inputs.cpu()) &&
         torch::equal(a.targets.cpu(), b.targets.cpu());
}

}  // namespace

TEST_CASE("a batch holds the windows that its number names", "[data]") {
  const Loaded t;
  const Batch batch = t.loader(torch::kCPU).load(/*first_window=*/4);
  REQUIRE(batch.inputs.sizes() == torch::IntArrayRef({kBatch, kContext}));
  for (int64_t row = 0; row < kBatch; ++row) {
    const int64_t start = t.sampler.start(4 + row);
    for (int64_t i = 0; i < kContext; ++i) {
      CHECK(batch.inputs[row][i].item<int64_t>() == t.data.train.at(start + i));
      CHECK(batch.targets[row][i].item<int64_t>() == t.data.train.at(start + i + 1));
    }
  }
}

TEST_CASE("reading ahead, rightly or wrongly, does not change what comes", "[data]") {
  const Loaded t;
  BatchLoader plain = t.loader(torch::kCPU), ahead = t.loader(torch::kCPU);
  for (const int64_t window : {0, 3, 6, 3}) {
    ahead.prefetch(window == 6 ? 99 : window);
    CHECK(same(ahead.load(window), plain.load(window)));
  }
}

TEST_CASE("a GPU's batches come through its copying stream as they are in the file",
          "[data][cuda]") {
  if (!torch::cuda::is_available()) TRIL_SKIP("no CUDA device here");
  const Loaded t;
  BatchLoader plain = t.loader(torch::kCPU), ahead = t.loader(torch::Device(torch::kCUDA, 0));
  for (int64_t window = 0; window < 300; window += kBatch) {
    if (window % 2 == 0) ahead.prefetch(window);
    const Batch batch = ahead.load(window);
    CHECK(batch.inputs.is_cuda());
    CHECK(same(batch, plain.load(window)));
  }
}
