#pragma once
// The matrix products of a training step, and how fast the machine does them alone: the speed that
// a step is measured against.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "tril/config/model_config.h"

namespace tril {

/// A linear map as a step multiplies it: forward (rows, in) x (in, out), then the gradients of its
/// input, (rows, out) x (out, in), and of its weight, (out, rows) x (rows, in).
struct LinearProducts {
  std::string name;
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t count = 0;  ///< how often in a step

  /// Of the three products, all `count` times.
  double flops() const;
};

/// Every linear map of a step of `micro_batches` batches of `batch_size` windows: the blocks' and
/// the head's, in the shapes in which the model multiplies them (the head in chunks of rows).
/// Attention's own products are not among them.
std::vector<LinearProducts> step_products(const ModelConfig& model,
                                          int64_t batch_size,
                                          int64_t micro_batches);

/// Speed of one shape, or of all of a step.
struct GemmSpeed {
  double flops = 0;
  double seconds = 0;
  double flops_per_second() const { return flops / seconds; }
};

/// Multiplies a step's shapes, and nothing else, with operands that are there already.
class GemmBench {
 public:
  GemmBench(const std::vector<LinearProducts>& products,
            torch::Device device,
            torch::ScalarType dtype);

  /// Times each shape for about `seconds_per_shape`, at least once. Seconds are those of a step:
  /// per product times its count. In the order of the products.
  std::vector<GemmSpeed> run(double seconds_per_shape);

 private:
  struct Shape {
    LinearProducts products;
    torch::Tensor x, w, dy;  ///< (rows, in), (out, in), (rows, out)
  };
  static void multiply(Shape& shape);

  torch::Device device_;
  std::vector<Shape> shapes_;
};

/// All shapes together: the step's FLOPs over the time they take alone.
GemmSpeed sum(const std::vector<GemmSpeed>& speeds);

}  // namespace tril
