#pragma once
// Several ranks in one process: a thread each, over a store that they share. The operations are the
// real ones, over Gloo's sockets.

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/one_thread.h"
#include "tril/distributed/process_group.h"

/// A check inside a rank's thread, where Catch's own are not allowed.
#define TRIL_MUST(condition)                                                               \
  if (!(condition))                                                                        \
  throw std::runtime_error(std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " + \
                           #condition)

namespace tril::testing {

/// Calls body(group) for each rank; throws what the first failing one threw.
inline void for_each_rank(int64_t n, const std::function<void(ProcessGroup&)>& body) {
  const auto store = Rendezvous::shared_store();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        World world;
        world.rank = rank;
        world.size = n;
        Rendezvous rendezvous(world, store);
        const auto group = make_process_group(rendezvous, torch::kCPU, /*timeout_seconds=*/20);
        body(*group);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace tril::testing
