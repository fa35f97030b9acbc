#include "tril/train/automatic_precision.h"

#include "support/catch.h"
#include "support/errors.h"
#include "tril/base/cpu.h"
#include "tril/base/error.h"

using namespace tril;
using namespace tril::testing;

namespace {

const torch::Device kGpu(torch::kCUDA, 1);

torch::ScalarType automatic(int64_t width, torch::Device device, bool has_bf16) {
  ModelConfig model;
  model.n_embed = width;
  return automatic_precision(model, device, has_bf16);
}

}  // namespace

TEST_CASE("auto takes the fastest precision that the device has", "[train]") {
  CHECK(automatic(8, kGpu, true) == torch::kBFloat16);
  CHECK(automatic(768, kGpu, false) == torch::kFloat16);  // before Ampere
  CHECK(automatic(64, torch::kCPU, true) == torch::kBFloat16);
  CHECK(automatic(63, torch::kCPU, true) == torch::kFloat32);
  CHECK(automatic(768, torch::kCPU, false) == torch::kFloat32);
  CHECK(multiplies_bf16(torch::kCPU) == cpu_has_bf16_products());
}

TEST_CASE("bf16 that was asked for is refused on a GPU without it, with the way out", "[train]") {
  const auto message =
      message_of<ConfigError>([] { require_precision(torch::kBFloat16, kGpu, false); });
  CHECK_THAT(message, ContainsSubstring("cuda:1 has no bfloat16"));
  CHECK_THAT(message, ContainsSubstring("fp16"));
  require_precision(torch::kBFloat16, kGpu, true);
  require_precision(torch::kFloat16, kGpu, false);
  require_precision(torch::kBFloat16, torch::kCPU, false);
}
