// NCCL through LibTorch, for GPUs. Operations run on NCCL's own stream, beside the backward pass;
// what must be agreed on the CPU goes through Gloo.

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "group_backends.h"

namespace tril {
namespace {

class NcclGroup : public ProcessGroup {
 public:
  NcclGroup(Rendezvous& rendezvous,
            torch::Device device,
            double timeout_seconds,
            const std::string& name)
      : ProcessGroup(rendezvous.world().rank, rendezvous.world().size),
        cpu_(make_gloo_backend(rendezvous, name + "/small", timeout_seconds)) {
    with_peers("connecting all GPUs", [&] {
      auto options = c10d::ProcessGroupNCCL::Options::create();
      options->timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * timeout_seconds));
      gpu_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl/" + name, rendezvous.store().c10d),
          static_cast<int>(rank()),
          static_cast<int>(size()),
          options);
      torch::Tensor first = torch::zeros({1}, torch::TensorOptions().device(device));
      std::vector<torch::Tensor> tensors{first};
      gpu_->allreduce(tensors)->wait();  // connects now, so that a fault shows here
      first.item<float>();
    });
  }

  std::string name() const override { return "NCCL"; }

  Pending start_all_reduce(torch::Tensor& tensor, Combine combine) override {
    return start_small_all_reduce(backend_for(tensor), tensor, combine);
  }
  void broadcast(const torch::Tensor& tensor) override {
    small_broadcast(backend_for(tensor), tensor);
  }

  Pending start_flat_all_reduce(torch::Tensor flat, torch::ScalarType wire) override {
    torch::Tensor sent = flat.to(wire);
    std::vector<torch::Tensor> tensors{sent};
    count_traffic(0, 2 * static_cast<int64_t>(sent.nbytes()) / size() * (size() - 1));
    return pending(gpu_->allreduce(tensors), [flat, sent] {
      if (!sent.is_same(flat)) flat.copy_(sent);
    });
  }

  Pending start_reduce_scatter(torch::Tensor flat,
                               torch::Tensor slot,
                               torch::ScalarType wire) override {
    torch::Tensor sent = flat.to(wire);
    torch::Tensor received = wire == torch::kFloat32 ? slot : torch::empty_like(slot, wire);
    count_traffic(0, static_cast<int64_t>(sent.nbytes()) / size() * (size() - 1));
    return pending(gpu_->_reduce_scatter_base(received, sent), [sent, received, slot] {
      if (!received.is_same(slot)) slot.copy_(received);
    });
  }

  Pending start_all_gather(torch::Tensor flat) override {
    const int64_t n = flat.numel() / size();
    torch::Tensor all = flat;
    torch::Tensor slot = flat.narrow(0, rank() * n, n);  // NCCL gathers in place
    count_traffic(0, static_cast<int64_t>(slot.nbytes()) * (size() - 1));
    return pending(gpu_->_allgather_base(all, slot), [flat] {});
  }

 private:
  c10d::Backend& backend_for(const torch::Tensor& tensor) {
    return tensor.is_cpu() ? *cpu_ : static_cast<c10d::Backend&>(*gpu_);
  }

  /// `then` runs on the current stream when the operation is done.
  static Pending pending(c10::intrusive_ptr<c10d::Work> work, std::function<void()> then) {
    return Pending([work = std::move(work), then = std::move(then)] {
      with_peers("exchanging gradients", [&] { work->wait(); });
      then();
    });
  }

  BackendPointer cpu_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> gpu_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(Rendezvous& rendezvous,
                                              torch::Device device,
                                              double timeout_seconds,
                                              const std::string& name) {
  return std::make_unique<NcclGroup>(rendezvous, device, timeout_seconds, name);
}

}  // namespace tril
