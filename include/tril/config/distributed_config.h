#pragma once
// The `distributed` section: how several processes train one model together.

#include <cstdint>

#include "tril/config/field.h"

namespace tril {

/// What each process holds a share of instead of a copy.
enum class Shard { kNone, kOptimizer, kFull };

inline constexpr EnumName<Shard> kShardNames[] = {
    {Shard::kNone, "none"},
    {Shard::kOptimizer, "optimizer"},
    {Shard::kFull, "full"},
};
constexpr std::span<const EnumName<Shard>> enum_names(Shard) {
  return kShardNames;
}

/// In which precision gradients travel.
enum class ReducePrecision { kFp32, kBf16 };

inline constexpr EnumName<ReducePrecision> kReducePrecisionNames[] = {
    {ReducePrecision::kFp32, "fp32"},
    {ReducePrecision::kBf16, "bf16"},
};
constexpr std::span<const EnumName<ReducePrecision>> enum_names(ReducePrecision) {
  return kReducePrecisionNames;
}

struct DistributedConfig {
  Shard shard = Shard::kNone;
  ReducePrecision reduce_precision = ReducePrecision::kFp32;
  double bucket_megabytes = 25;
  int64_t check_interval = 1000;
  double timeout_seconds = 600;

  bool operator==(const DistributedConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("shard",
            self.shard,
            {.meaning = "`optimizer`: each process keeps its share of the moments and updates its "
                        "share of the weights; `full`: weights and gradients too are "
                        "shared out, and gathered block by block (with "
                        "`train.activation_checkpointing`). The result is the same",
             .on_resume = OnResume::kMayChange});
    v.field("reduce_precision",
            self.reduce_precision,
            {.meaning = "in which gradients travel between processes; they are added up in fp32. "
                        "`bf16` halves what is sent, and rounds"});
    v.field("bucket_megabytes",
            self.bucket_megabytes,
            {.meaning = "gradients are sent in pieces of about this size, while the backward pass "
                        "goes on. Does not change the result",
             .unit = "MB",
             .min = 0.001,
             .max = 1e6,
             .on_resume = OnResume::kMayChange});
    v.field("check_interval",
            self.check_interval,
            {.meaning = "steps between comparisons of all processes' weights; 0: only at the start",
             .unit = "steps",
             .min = 0,
             .max = 1e12,
             .on_resume = OnResume::kMayChange});
    v.field("timeout_seconds",
            self.timeout_seconds,
            {.meaning = "how long a process waits for the others before it gives up (exit 7); "
                        "longer than a save takes. One that dies on a machine that is still there "
                        "is noticed at once",
             .unit = "seconds",
             .min = 1,
             .max = 1e6,
             .on_resume = OnResume::kMayChange});
  }
};

}  // namespace tril
