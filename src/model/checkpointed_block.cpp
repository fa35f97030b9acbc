#include "tril/model/checkpointed_block.h"

#include <mutex>
#include <vector>

#include "tril/model/autocast.h"

namespace tril {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The state of the device's random numbers; reads and replaces it.
torch::Tensor random_state(torch::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}
void set_random_state(torch::Device device, const torch::Tensor& state) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

/// What the second computation needs besides the tensors.
struct Replay : torch::CustomClassHolder {
  Replay(Block b, WeightLender* l, size_t u, torch::ScalarType p, torch::Tensor r)
      : block(std::move(b)), lender(l), unit(u), precision(p), random(std::move(r)) {}
  Block block;
  WeightLender* lender;
  size_t unit;
  torch::ScalarType precision;  ///< of autocast; kFloat32: off
  torch::Tensor random;         ///< undefined: the block draws no random numbers
};

/// The block on a copy of x that is cut off from the graph before it.
struct Computed {
  torch::Tensor x, y;
};
Computed compute(Block& block, const torch::Tensor& x) {
  const torch::AutoGradMode with_graph(true);  // both times the same code runs
  Computed result;
  result.x = x.detach().requires_grad_(true);
  result.y = block->forward(result.x);
  return result;
}

class CheckpointedBlock : public torch::autograd::Function<CheckpointedBlock> {
 public:
  static torch::Tensor forward(AutogradContext* ctx,
                               const torch::Tensor& x,
                               at::TensorList parameters,
                               Block block,
                               WeightLender* lender,
                               size_t unit,
                               bool draws_random_numbers) {
    const auto device = x.device();
    const auto precision = at::autocast::is_autocast_enabled(device.type())
                               ? at::autocast::get_autocast_dtype(device.type())
                               : torch::kFloat32;
    ctx->saved_data["replay"] = torch::IValue::make_capsule(
        c10::make_intrusive<Replay>(block,
                                    lender,
                                    unit,
                                    precision,
                                    draws_random_numbers ? random_state(device) : torch::Tensor()));
    variable_list saved{x};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    ctx->save_for_backward(std::move(saved));
    return compute(block, x).y.detach();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grad_outputs) {
    const auto replay =
        c10::static_intrusive_pointer_cast<Replay>(ctx->saved_data["replay"].toCapsule());
    variable_list inputs = ctx->get_saved_variables();
    const auto device = inputs[0].device();
    torch::Tensor random_now;
    if (replay->random.defined()) {
      random_now = random_state(device);
      set_random_state(device, replay->random);
    }
    // Until the gradients are there. The parameters among the saved variables are the very ones
    // that the lender fills.
    const BorrowedWeights borrowed(replay->lender, replay->unit);
    Computed again;
    {
      const AutocastGuard autocast(device.type(), replay->precision);
      again = compute(replay->block, inputs[0]);
    }
    if (random_now.defined()) set_random_state(device, random_now);
    inputs[0] = again.x;
    variable_list grads = torch::autograd::grad({again.y}, inputs, {grad_outputs[0]});
    grads.emplace_back();  // block
    grads.emplace_back();  // lender
    grads.emplace_back();  // unit
    grads.emplace_back();  // draws_random_numbers
    return grads;
  }
};

}  // namespace

torch::Tensor checkpointed_forward(Block block,
                                   const torch::Tensor& x,
                                   WeightLender* lender,
                                   size_t unit) {
  const std::vector<torch::Tensor> parameters = block->parameters();
  return CheckpointedBlock::apply(
      x, at::TensorList(parameters), block, lender, unit, block->has_dropout());
}

}  // namespace tril
