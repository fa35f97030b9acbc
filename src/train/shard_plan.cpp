#include "shard_plan.h"

#include <algorithm>

#include "tril/optim/parameter_rules.h"

namespace tril {
namespace {

constexpr int64_t kAlwaysThere = -1;

/// A run of a parameter's numbers that is lent with one unit.
struct UnitPart {
  size_t parameter = 0;  ///< among the trained ones
  int64_t begin = 0;
  int64_t count = 0;
  int64_t unit = kAlwaysThere;
};

const torch::Tensor* find_tensor(const std::vector<NamedTensor>& parameters,
                                 std::string_view name) {
  for (const NamedTensor& parameter : parameters) {
    if (parameter.name == name) return &parameter.tensor;
  }
  return nullptr;
}

/// Pieces of nearly equal size.
RowPieces cut_rows(const torch::Tensor* table, int64_t most_rows, size_t first_unit) {
  RowPieces pieces;
  pieces.first_unit = first_unit;
  if (table == nullptr) return pieces;
  pieces.rows = table->size(0);
  const int64_t n = (pieces.rows + most_rows - 1) / most_rows;
  pieces.rows_per_piece = (pieces.rows + n - 1) / n;
  return pieces;
}

LendingUnits units_of(const std::vector<NamedTensor>& parameters) {
  int64_t n_blocks = 0, block_numbers = 0;
  for (const auto& [name, tensor] : parameters) {
    const auto block = block_of(name);
    if (block) n_blocks = std::max(n_blocks, *block + 1);
    if (block == 0) block_numbers += tensor.numel();
  }
  const torch::Tensor* tokens = find_tensor(parameters, "token_embedding.weight");
  // A row of the head has a bias too.
  const int64_t most_rows = std::max<int64_t>(1, block_numbers / (tokens->size(1) + 1));
  LendingUnits units;
  units.tokens = cut_rows(tokens, most_rows, 0);
  units.positions = cut_rows(find_tensor(parameters, "position_embedding.weight"),
                             most_rows,
                             units.tokens.unit(units.tokens.count()));
  units.first_block = units.positions.unit(units.positions.count());
  units.head = cut_rows(tokens, most_rows, units.block(static_cast<size_t>(n_blocks)));
  return units;
}

void append_parts(const NamedTensor& parameter,
                  size_t number,
                  const LendingUnits& units,
                  std::vector<UnitPart>& parts) {
  const auto& [name, tensor] = parameter;
  const auto cut = [&](const RowPieces& pieces) {
    const int64_t row_numbers = tensor.numel() / pieces.rows;
    for (size_t piece = 0; piece < pieces.count(); ++piece) {
      parts.push_back({.parameter = number,
                       .begin = pieces.first_row(piece) * row_numbers,
                       .count = pieces.rows_of(piece) * row_numbers,
                       .unit = static_cast<int64_t>(pieces.unit(piece))});
    }
  };
  if (name.starts_with("token_embedding.")) return cut(units.tokens);
  if (name.starts_with("position_embedding.")) return cut(units.positions);
  if (name.starts_with("lm_head.")) return cut(units.head);
  const auto block = block_of(name);
  parts.push_back({.parameter = number,
                   .count = tensor.numel(),
                   .unit = block ? static_cast<int64_t>(units.block(static_cast<size_t>(*block)))
                                 : kAlwaysThere});
}

}  // namespace

ShardPlan plan_shards(const std::vector<NamedTensor>& trained,
                      const std::vector<bool>& whole,
                      int64_t n_processes,
                      int64_t bucket_numbers) {
  std::vector<int64_t> sizes;
  for (const NamedTensor& parameter : trained) sizes.push_back(parameter.tensor.numel());
  ShardPlan plan;
  plan.buckets = plan_buckets(sizes, whole, n_processes, bucket_numbers);
  plan.update_buckets = plan.buckets;
  plan.is_lent.resize(plan.buckets.size(), false);
  return plan;
}

ShardPlan plan_lent_shards(const std::vector<NamedTensor>& parameters,
                           const std::vector<NamedTensor>& trained,
                           const std::vector<bool>& whole,
                           int64_t n_processes,
                           int64_t bucket_numbers) {
  ShardPlan plan;
  plan.units = units_of(parameters);
  plan.buckets_of_unit.resize(plan.units.size());
  std::vector<UnitPart> parts;
  for (size_t i = 0; i < trained.size(); ++i) append_parts(trained[i], i, plan.units, parts);
  // A piece of the head beside its bias. What is always there comes first, so it is sent last.
  std::stable_sort(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.unit < b.unit; });
  std::vector<int64_t> sizes, units, unit_of_bucket;
  std::vector<bool> is_whole;
  for (const UnitPart& part : parts) {
    sizes.push_back(part.count);
    units.push_back(part.unit);
    is_whole.push_back(whole[part.parameter]);
  }
  plan.update_buckets =
      plan_buckets_by_unit(sizes, is_whole, units, n_processes, bucket_numbers, unit_of_bucket);
  const bool head_is_tied = find_tensor(parameters, "lm_head.weight") == nullptr;
  for (size_t b = 0; b < plan.update_buckets.size(); ++b) {
    for (BucketMember& member : plan.update_buckets[b].members) {
      const UnitPart& part = parts[member.parameter];
      member.parameter = part.parameter;
      member.begin = part.begin;
    }
    plan.buckets.push_back(cut_evenly(plan.update_buckets[b], n_processes));
    plan.is_lent.push_back(unit_of_bucket[b] != kAlwaysThere);
    if (!plan.is_lent[b]) continue;
    const auto unit = static_cast<size_t>(unit_of_bucket[b]);
    plan.buckets_of_unit[unit].push_back(b);
    if (head_is_tied && unit < plan.units.tokens.count()) {
      plan.buckets_of_unit[plan.units.head.unit(unit)].push_back(b);
    }
  }
  return plan;
}

}  // namespace tril
