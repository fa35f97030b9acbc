#include "tril/distributed/gloo_exchange.h"

#include <cstring>
#include <vector>

#include "group_backends.h"

namespace tril {
namespace {

class GlooExchange : public BlockExchange {
 public:
  GlooExchange(Rendezvous& rendezvous, double timeout_seconds)
      : BlockExchange(rendezvous.world().rank, rendezvous.world().size),
        backend_(make_gloo_backend(rendezvous, "exchange", timeout_seconds)) {}

  void send(const std::string& message) override {
    const auto n = static_cast<int64_t>(message.size());
    torch::Tensor bytes = torch::empty({n}, torch::kUInt8);
    if (n > 0) std::memcpy(bytes.mutable_data_ptr(), message.data(), message.size());
    with_peers("handing over a block", [&] {
      send_tensor(torch::full({1}, n, torch::kInt64));
      if (n > 0) send_tensor(bytes);
    });
  }

  std::string receive(int64_t rank) override {
    return with_peers("receiving a block", [&] {
      const torch::Tensor size = torch::empty({1}, torch::kInt64);
      receive_tensor(size, rank);
      const torch::Tensor bytes = torch::empty({size.item<int64_t>()}, torch::kUInt8);
      if (bytes.numel() == 0) return std::string();
      receive_tensor(bytes, rank);
      return std::string(static_cast<const char*>(bytes.const_data_ptr()),
                         static_cast<size_t>(bytes.numel()));
    });
  }

 private:
  void send_tensor(const torch::Tensor& tensor) {
    std::vector<torch::Tensor> tensors{tensor};
    backend_->send(tensors, /*dstRank=*/0, /*tag=*/0)->wait();
  }
  void receive_tensor(const torch::Tensor& tensor, int64_t rank) {
    std::vector<torch::Tensor> tensors{tensor};
    backend_->recv(tensors, static_cast<int>(rank), /*tag=*/0)->wait();
  }

  BackendPointer backend_;
};

}  // namespace

std::unique_ptr<BlockExchange> make_gloo_exchange(Rendezvous& rendezvous, double timeout_seconds) {
  return std::make_unique<GlooExchange>(rendezvous, timeout_seconds);
}

}  // namespace tril
