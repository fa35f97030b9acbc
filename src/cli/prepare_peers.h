#pragma once
// `tril prepare` as one of several processes. No Torch here.

#include <functional>

#include "commands.h"
#include "tril/distributed/block_exchange.h"
#include "tril/distributed/world.h"

namespace tril::cli {

/// Joins the others and calls `part`; returns the exit code.
int prepare_with_peers(const World& world,
                       const CommonOptions& common,
                       const std::function<int(BlockExchange&)>& part);

}  // namespace tril::cli
