// Gloo through LibTorch. Flat operations are put together from all-to-all, sums of our own and
// all-gather: LibTorch's reduce-scatter over Gloo would send as much as an all-reduce, and sums in
// the order of ranks are the same whichever way gradients are shared.

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "flat_math.h"
#include "group_backends.h"

namespace tril {
namespace {

using GroupClock = std::chrono::steady_clock;

/// This machine's address on the way to rank 0: the one that the others can reach. Empty: unknown.
std::string address_towards(const World& world) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(world.port == 0 ? 9 : world.port);
  if (::getaddrinfo(world.host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  std::string address;
  for (const addrinfo* info = found; info != nullptr && address.empty(); info = info->ai_next) {
    const int fd = ::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    auto* generic = reinterpret_cast<sockaddr*>(&own);
    char text[INET6_ADDRSTRLEN] = {};
    // Connecting a datagram socket sends nothing; it only chooses the way.
    if (::connect(fd, info->ai_addr, info->ai_addrlen) == 0 &&
        ::getsockname(fd, generic, &size) == 0 &&
        ::getnameinfo(generic, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      address = text;
    }
    ::close(fd);
  }
  ::freeaddrinfo(found);
  return address;
}

std::shared_ptr<::gloo::transport::Device> choose_network_device(const World& world) {
  // The variable that PyTorch's users know.
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) {
    return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  }
  const std::string address = address_towards(world);
  return address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                         : c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

torch::Tensor bytes_of(const torch::Tensor& tensor) {
  return tensor.view(torch::kUInt8);
}

class GlooGroup : public ProcessGroup {
 public:
  GlooGroup(Rendezvous& rendezvous, double timeout_seconds, const std::string& name)
      : ProcessGroup(rendezvous.world().rank, rendezvous.world().size),
        small_(make_gloo_backend(rendezvous, name + "/small", timeout_seconds)),
        flat_(make_gloo_backend(rendezvous, name + "/flat", timeout_seconds)) {}

  std::string name() const override { return "Gloo"; }

  Pending start_all_reduce(torch::Tensor& tensor, Combine combine) override {
    return start_small_all_reduce(*small_, tensor, combine);
  }
  void broadcast(const torch::Tensor& tensor) override { small_broadcast(*small_, tensor); }

  Pending start_flat_all_reduce(torch::Tensor flat, torch::ScalarType wire) override {
    return start([this, flat, wire] {
      torch::Tensor all = flat;
      torch::Tensor slot = torch::empty({flat.numel() / size()}, flat.options());
      sum_of_slot(flat, slot, wire);
      if (wire == torch::kFloat32) return gather(all, slot);
      torch::Tensor narrow_slot = torch::empty_like(slot, slot.options().dtype(wire));
      convert(slot, narrow_slot);
      torch::Tensor narrow = torch::empty_like(flat, flat.options().dtype(wire));
      gather(narrow, narrow_slot);
      convert(narrow, all);
    });
  }

  Pending start_reduce_scatter(torch::Tensor flat,
                               torch::Tensor slot,
                               torch::ScalarType wire) override {
    return start([this, flat, slot, wire] {
      torch::Tensor own = slot;
      sum_of_slot(flat, own, wire);
    });
  }

  Pending start_all_gather(torch::Tensor flat) override {
    return start([this, flat] {
      torch::Tensor all = flat;
      const int64_t n = flat.numel() / size();
      gather(all, flat.narrow(0, rank() * n, n).clone());
    });
  }

 private:
  Pending start(std::function<void()> job) {
    return jobs_.add([this, job = std::move(job)] {
      const torch::NoGradGuard no_grad;
      const auto begin = GroupClock::now();
      with_peers("exchanging gradients", job);
      count_traffic(
          std::chrono::duration_cast<std::chrono::nanoseconds>(GroupClock::now() - begin).count(),
          0);
    });
  }

  void sum_of_slot(const torch::Tensor& flat, torch::Tensor& slot, torch::ScalarType wire) {
    torch::Tensor sent = flat;
    if (wire != torch::kFloat32) {
      sent = torch::empty_like(flat, flat.options().dtype(wire));
      convert(flat, sent);
    }
    const torch::Tensor received = torch::empty_like(sent);
    torch::Tensor in = bytes_of(sent), out = bytes_of(received);
    std::vector<int64_t> equal_shares;
    flat_->alltoall_base(out, in, equal_shares, equal_shares)->wait();
    count_traffic(0, in.numel() / size() * (size() - 1));
    sum_slots(received, slot);
  }

  void gather(torch::Tensor& all, const torch::Tensor& slot) {
    torch::Tensor in = bytes_of(slot), out = bytes_of(all);
    flat_->_allgather_base(out, in)->wait();
    count_traffic(0, in.numel() * (size() - 1));
  }

  BackendPointer small_;
  BackendPointer flat_;  ///< used by jobs_ only: its operations keep their order
  JobThread jobs_;
};

}  // namespace

BackendPointer make_gloo_backend(Rendezvous& rendezvous,
                                 const std::string& prefix,
                                 double timeout_seconds) {
  const World& world = rendezvous.world();
  return with_peers("connecting all processes", [&]() -> BackendPointer {
    auto options = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<int64_t>(1000 * timeout_seconds)));
    options->devices.push_back(choose_network_device(world));
    options->threads = 1;
    return c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo/" + prefix, rendezvous.store().c10d),
        static_cast<int>(world.rank),
        static_cast<int>(world.size),
        options);
  });
}

Pending start_small_all_reduce(c10d::Backend& backend, torch::Tensor& tensor, Combine combine) {
  return with_peers("comparing notes", [&] {
    std::vector<torch::Tensor> tensors{tensor.detach()};
    c10d::AllreduceOptions options;
    options.reduceOp = combine == Combine::kSum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
    auto work = backend.allreduce(tensors, options);
    return Pending([work] { with_peers("comparing notes", [&] { work->wait(); }); });
  });
}

void small_broadcast(c10d::Backend& backend, const torch::Tensor& tensor) {
  with_peers("receiving from rank 0", [&] {
    std::vector<torch::Tensor> tensors{tensor.detach()};
    backend.broadcast(tensors)->wait();
  });
}

JobThread::~JobThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Pending JobThread::add(std::function<void()> job) {
  std::packaged_task<void()> task(std::move(job));
  auto done = std::make_shared<std::future<void>>(task.get_future());
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(task));
  }
  changed_.notify_all();
  return Pending([done] { done->get(); });
}

void JobThread::work() {
  for (;;) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (stop_) return;  // nobody waits for what is left
      task = std::move(jobs_.front());
      jobs_.pop_front();
    }
    task();
  }
}

std::unique_ptr<ProcessGroup> make_gloo_group(Rendezvous& rendezvous,
                                              double timeout_seconds,
                                              const std::string& name) {
  return std::make_unique<GlooGroup>(rendezvous, timeout_seconds, name);
}

std::unique_ptr<ProcessGroup> make_process_group(Rendezvous& rendezvous,
                                                 torch::Device device,
                                                 double timeout_seconds,
                                                 const std::string& name) {
  return device.is_cpu() ? make_gloo_group(rendezvous, timeout_seconds, name)
                         : make_nccl_group(rendezvous, device, timeout_seconds, name);
}

#ifndef TRIL_HAS_NCCL
std::unique_ptr<ProcessGroup> make_nccl_group(Rendezvous&,
                                              torch::Device device,
                                              double,
                                              const std::string&) {
  throw ConfigError(fmt::format(
      "several processes on {}: this build of tril has no NCCL. Build it against the full LibTorch "
      "(TRIL_CUDA=1 scripts/setup.sh, then cmake --preset cuda), or give --device cpu",
      device.str()));
}
#endif

}  // namespace tril
