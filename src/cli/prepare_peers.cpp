#include "prepare_peers.h"

#include "peers.h"
#include "tril/distributed/gloo_exchange.h"

namespace tril::cli {

int prepare_with_peers(const World& world,
                       const CommonOptions& common,
                       const std::function<int(BlockExchange&)>& part) {
  return run_with_peers(world, common, [&](Rendezvous& rendezvous) {
    const auto exchange = make_gloo_exchange(rendezvous, DistributedConfig{}.timeout_seconds);
    return part(*exchange);
  });
}

}  // namespace tril::cli
