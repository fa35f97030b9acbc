#pragma once
// What `tril bench` prints.

#include "tril/base/json.h"
#include "tril/bench/bench.h"
#include "tril/bench/parallel_bench.h"
#include "tril/config/run_config.h"
#include "tril/train/trainer.h"

namespace tril::cli {

/// A table on stdout, for people.
void print_bench_table(const BenchResult& result,
                       const RunConfig& config,
                       const ResolvedChoices& choices);

/// Of several processes.
void print_parallel_bench(const ParallelBenchResult& result,
                          const RunConfig& config,
                          const ResolvedChoices& choices);
OrderedJson parallel_bench_json(const ParallelBenchResult& result,
                                const RunConfig& config,
                                const ResolvedChoices& choices);

/// The same figures for programs; speeds and times with "median", "low" and "high".
OrderedJson bench_json(const BenchResult& result,
                       const RunConfig& config,
                       const ResolvedChoices& choices);

}  // namespace tril::cli
