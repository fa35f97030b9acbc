#pragma once
// Texts between processes, over Gloo.

#include <memory>

#include "tril/distributed/block_exchange.h"
#include "tril/distributed/rendezvous.h"

namespace tril {

/// All processes of the rendezvous call it. A side that does not answer within the time-out has
/// gone. The rendezvous must outlive it.
std::unique_ptr<BlockExchange> make_gloo_exchange(Rendezvous& rendezvous, double timeout_seconds);

}  // namespace tril
