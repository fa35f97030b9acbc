#include "tril/distributed/rendezvous.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "store.h"
#include "tril/base/error.h"

namespace tril {
namespace {

using RendezvousClock = std::chrono::steady_clock;
constexpr auto kStorePause = std::chrono::milliseconds(10);

double seconds_after(RendezvousClock::time_point start) {
  return std::chrono::duration<double>(RendezvousClock::now() - start).count();
}

c10::intrusive_ptr<c10d::Store> connect_store(const World& world, double join_seconds) {
  c10d::TCPStoreOptions options;
  options.port = world.port;
  options.isServer = world.rank == 0 && !world.store_is_served;
  options.waitWorkers = false;  // who is missing is told below
  options.multiTenant = true;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * join_seconds));
  if (options.isServer && world.listen_fd >= 0) options.masterListenFd = world.listen_fd;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(world.host, options);
    return c10::make_intrusive<c10d::PrefixStore>("tril/" + world.run, store);
  } catch (const std::exception& error) {
    throw PeerError(fmt::format(
        "rank {} of {}: {} {}:{}: {}. The address comes from {}; it must be rank 0's, and the port "
        "free there",
        world.rank,
        world.size,
        options.isServer ? "cannot serve the processes' store on" : "cannot reach rank 0 at",
        world.host,
        world.port,
        reason_of(error),
        world.source));
  }
}

/// c10d warns of lost connections with a backtrace each; we say it in an error of our own.
void silence_library_warnings() {
  constexpr int kErrorsOnly = 2;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = kErrorsOnly;
}

std::string joined_key(int64_t rank) {
  return fmt::format("joined/{}", rank);
}

}  // namespace

Rendezvous::Rendezvous(const World& world, double join_seconds)
    : world_(world), store_(std::make_unique<Store>()) {
  silence_library_warnings();
  const auto start = RendezvousClock::now();
  store_->c10d = connect_store(world, join_seconds);
  publish(joined_key(world.rank), "");
  for (int64_t rank = 0; rank < world.size; ++rank) {
    while (!find(joined_key(rank))) {
      if (seconds_after(start) < join_seconds) {
        std::this_thread::sleep_for(kStorePause);
        continue;
      }
      std::vector<int64_t> missing;
      for (int64_t r = rank; r < world.size; ++r) {
        if (!find(joined_key(r))) missing.push_back(r);
      }
      throw PeerError(fmt::format("{} of {} processes have not joined within {:.0f} s: rank {}",
                                  missing.size(),
                                  world.size,
                                  join_seconds,
                                  fmt::join(missing, ", ")));
    }
  }
}

std::shared_ptr<void> Rendezvous::shared_store() {
  auto store = std::make_shared<Store>();
  store->c10d = c10::make_intrusive<c10d::HashStore>();
  return store;
}

Rendezvous::Rendezvous(const World& world, const std::shared_ptr<void>& shared_store)
    : world_(world),
      store_(std::make_unique<Store>(*static_cast<const Store*>(shared_store.get()))) {}

Rendezvous::~Rendezvous() = default;

void Rendezvous::publish(const std::string& key, const std::string& text) {
  with_peers("leaving a message", [&] { store_->c10d->set(key, text); });
}

std::optional<std::string> Rendezvous::find(const std::string& key) {
  try {
    if (!store_->c10d->check({key})) return std::nullopt;
    return store_->c10d->get_to_str(key);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<std::string> Rendezvous::await(const std::string& key,
                                             const std::function<bool()>& should_stop) {
  while (!with_peers("waiting for rank 0", [&] { return store_->c10d->check({key}); })) {
    if (should_stop && should_stop()) return std::nullopt;
    std::this_thread::sleep_for(kStorePause);
  }
  return with_peers("reading a message", [&] { return store_->c10d->get_to_str(key); });
}

void Rendezvous::leave(double most_seconds) noexcept {
  if (left_) return;
  left_ = true;
  try {
    int64_t n_left = store_->c10d->add("left", 1);
    const bool serves = world_.rank == 0 && !world_.store_is_served;
    const auto start = RendezvousClock::now();
    while (serves && n_left < world_.size && seconds_after(start) < most_seconds) {
      std::this_thread::sleep_for(kStorePause);
      n_left = store_->c10d->add("left", 0);
    }
  } catch (const std::exception&) {
    // Nobody there to take leave of.
  }
}

}  // namespace tril
