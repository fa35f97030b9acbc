#include "tril/bench/gemm.h"

#include <algorithm>
#include <chrono>

#include "tril/bench/phase_clock.h"
#include "tril/model/loss.h"
#include "tril/model/matrix_product.h"

namespace tril {

double LinearProducts::flops() const {
  return 6.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out) *
         static_cast<double>(count);
}

std::vector<LinearProducts> step_products(const ModelConfig& model,
                                          int64_t batch_size,
                                          int64_t micro_batches) {
  const int64_t rows = batch_size * model.context_length;
  const int64_t c = model.n_embed, f = model.ffn_size(), v = model.padded_vocab_size();
  const int64_t n_blocks = model.n_blocks * micro_batches;
  std::vector<LinearProducts> result;
  if (model.attention == AttentionPath::kFused) {
    result.push_back({"query, key, value", rows, c, 3 * c, n_blocks});
  } else {
    result.push_back(
        {"query, key, value", rows, c, model.head_size(), 3 * model.n_head * n_blocks});
  }
  result.push_back({"attention output", rows, c, c, n_blocks});
  const int64_t n_up = model.activation == Activation::kSwiglu ? 2 : 1;
  result.push_back({"feed-forward up", rows, c, f, n_up * n_blocks});
  result.push_back({"feed-forward down", rows, f, c, n_blocks});
  const int64_t chunk = std::min(rows, loss_chunk_rows(v));
  result.push_back({"head", chunk, c, v, rows / chunk * micro_batches});
  if (rows % chunk != 0) {
    result.push_back({"head, last rows", rows % chunk, c, v, micro_batches});
  }
  return result;
}

GemmBench::GemmBench(const std::vector<LinearProducts>& products,
                     torch::Device device,
                     torch::ScalarType dtype)
    : device_(device) {
  const torch::NoGradGuard no_grad;
  const auto options = torch::TensorOptions().device(device).dtype(dtype);
  for (const LinearProducts& p : products) {
    const auto numbers = [&](int64_t rows, int64_t columns) {
      return torch::empty({rows, columns}, options).normal_(0.0, 0.1);
    };
    shapes_.push_back({p, numbers(p.rows, p.in), numbers(p.out, p.in), numbers(p.rows, p.out)});
  }
}

void GemmBench::multiply(Shape& s) {
  linear_product(s.x, s.w);    // (rows, in) x (in, out)
  input_gradient(s.dy, s.w);   // (rows, out) x (out, in)
  weight_gradient(s.dy, s.x);  // (out, rows) x (rows, in)
}

std::vector<GemmSpeed> GemmBench::run(double seconds_per_shape) {
  using Clock = std::chrono::steady_clock;
  const torch::NoGradGuard no_grad;
  std::vector<GemmSpeed> result;
  for (Shape& shape : shapes_) {
    const auto seconds_of = [&](int64_t repeats) {
      wait_for_device(device_);
      const auto begin = Clock::now();
      for (int64_t i = 0; i < repeats; ++i) multiply(shape);
      wait_for_device(device_);
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    // The first time says how often the shape fits, and brings its operands into the caches.
    const double once = seconds_of(1);
    const auto repeats = static_cast<int64_t>(std::clamp(seconds_per_shape / once, 1.0, 1e6));
    result.push_back({.flops = shape.products.flops(),
                      .seconds = seconds_of(repeats) / static_cast<double>(repeats) *
                                 static_cast<double>(shape.products.count)});
  }
  return result;
}

GemmSpeed sum(const std::vector<GemmSpeed>& speeds) {
  GemmSpeed total;
  for (const GemmSpeed& speed : speeds) {
    total.flops += speed.flops;
    total.seconds += speed.seconds;
  }
  return total;
}

}  // namespace tril
