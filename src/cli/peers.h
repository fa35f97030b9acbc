#pragma once
// A command as one of several processes: rank 0 leads, the others follow it.

#include <functional>
#include <optional>
#include <string>

#include "commands.h"
#include "tril/config/run_config.h"
#include "tril/data/training_data.h"
#include "tril/distributed/rendezvous.h"
#include "tril/distributed/world.h"
#include "tril/train/memory_estimate.h"
#include "tril/train/trainer.h"

namespace tril::cli {

/// What one process does, once it has joined the others; returns its exit code.
using Part = std::function<int(Rendezvous&)>;

/// Joins the others and calls `part`. A failure of one is told to all, so that only the process at
/// fault speaks. Returns the exit code.
int run_with_peers(const World& world, const CommonOptions& common, const Part& part);

/// `tril train` in every process but the first: waits for what rank 0 decides, and does it.
int follow(Rendezvous& rendezvous);

/// `tril train` in rank 0: tells the others what to do, and connects all. Nothing is left to their
/// own choice but device number and threads.
std::unique_ptr<ProcessGroup> lead_others(Rendezvous& rendezvous,
                                          const RunConfig& config,
                                          const ResolvedChoices& choices,
                                          const TrainingData& data);

/// What one of `world`'s processes takes of memory.
MemoryEstimate estimate_memory_of_one(const RunConfig& config,
                                      c10::ScalarType precision,
                                      const World& world);

}  // namespace tril::cli
