#include "tril/config/run_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "for_each_field.h"
#include "tril/base/error.h"
#include "tril/config/json_reader.h"

namespace tril {

namespace {

/// Most tokens one step may have; also keeps every product of sizes far from overflow.
constexpr double kMaxStepTokens = 1e12;

void validate_length(const TrainConfig& train, const std::string& origin) {
  std::string given;
  int n_given = 0;
  const auto add = [&](const char* name, double value) {
    if (value <= 0) return;
    given += fmt::format("{}train.{} {}", n_given == 0 ? "" : " and ", name, value);
    ++n_given;
  };
  add("steps", static_cast<double>(train.steps));
  add("tokens", static_cast<double>(train.tokens));
  add("epochs", train.epochs);
  if (n_given > 1) {
    throw ConfigError(
        fmt::format("{}: at most one of train.steps, train.tokens, train.epochs; found {}. Remove "
                    "all but one, or set the others to 0.",
                    origin,
                    given));
  }
}

void validate_step(const TrainConfig& train, int64_t context_length, const std::string& origin) {
  const int64_t batch_tokens = train.batch_size * context_length;
  if (train.tokens_per_step > 0) {
    if (train.accumulation != 1) {
      throw ConfigError(fmt::format(
          "{}: give train.accumulation or train.tokens_per_step, not both; found accumulation {} "
          "and tokens_per_step {}.",
          origin,
          train.accumulation,
          train.tokens_per_step));
    }
    if (train.tokens_per_step % batch_tokens != 0) {
      const int64_t below = train.tokens_per_step / batch_tokens * batch_tokens;
      throw ConfigError(
          fmt::format("{}: train.tokens_per_step must be a multiple of train.batch_size x "
                      "model.context_length = {} x {} = {}; found {}. The nearest are {} and {}.",
                      origin,
                      train.batch_size,
                      context_length,
                      batch_tokens,
                      train.tokens_per_step,
                      std::max(below, batch_tokens),
                      below == 0 ? 2 * batch_tokens : below + batch_tokens));
    }
  }
  const double step_tokens =
      static_cast<double>(batch_tokens) * static_cast<double>(train.micro_batches(context_length));
  if (step_tokens > kMaxStepTokens) {
    throw ConfigError(fmt::format(
        "{}: one step may have at most {} tokens; found train.batch_size {} x accumulation {} x "
        "model.context_length {}.",
        origin,
        kMaxStepTokens,
        train.batch_size,
        train.micro_batches(context_length),
        context_length));
  }
}

struct FlatField {
  std::string key;
  Json value;
  OnResume on_resume = OnResume::kFixed;
};

/// Two lists that differ are shown whole: "a list" would not say how.
std::string show_whole(const Json& value) {
  return value.is_array() ? value.dump() : show_value(value);
}

std::vector<FlatField> flatten(const RunConfig& config) {
  std::vector<FlatField> fields;
  for_each_field(
      config,
      [&](std::string_view section, std::string_view name, const auto& member, const Rule& rule) {
        fields.push_back({dotted_key(section, name), write_value(member), rule.on_resume});
      });
  return fields;
}

}  // namespace

bool is_device_name(std::string_view text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  constexpr std::string_view kPrefix = "cuda:";
  if (text.substr(0, kPrefix.size()) != kPrefix) return false;
  const std::string_view number = text.substr(kPrefix.size());
  if (number.empty() || number.size() > 3 || (number.size() > 1 && number[0] == '0')) return false;
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void validate(const RunConfig& config, const std::string& origin) {
  for_each_field(
      config,
      [&](std::string_view section, std::string_view name, const auto& member, const Rule& rule) {
        // Ranges are checked by reading the value back.
        std::remove_cvref_t<decltype(member)> copy = member;
        read_value(write_value(member), rule, {origin, dotted_key(section, name)}, copy);
      });
  validate(config.model, origin);
  validate_length(config.train, origin);
  validate_step(config.train, config.model.context_length, origin);
  if (config.train.cuda_graph && config.model.dropout > 0) {
    throw ConfigError(
        fmt::format("{}: train.cuda_graph needs model.dropout 0; found {}. A recorded step would "
                    "repeat its random numbers",
                    origin,
                    config.model.dropout));
  }
  if (config.distributed.shard == Shard::kFull && !config.train.activation_checkpointing) {
    throw ConfigError(
        fmt::format("{}: distributed.shard full needs train.activation_checkpointing true; found "
                    "false. A block's weights are there only while it computes, so the backward "
                    "pass must compute it again",
                    origin));
  }
  if (config.schedule.min_learning_rate.value_or(0) > config.optimizer.learning_rate) {
    throw ConfigError(fmt::format(
        "{}: schedule.min_learning_rate must be at most optimizer.learning_rate; found {} and {}. "
        "null stands for a tenth of the learning rate.",
        origin,
        *config.schedule.min_learning_rate,
        config.optimizer.learning_rate));
  }
  if (config.train.epochs <= 0) config.train.total_steps(config.model.context_length, 1);
}

OrderedJson to_json(const RunConfig& config) {
  OrderedJson json = OrderedJson::object();
  for_each_field(
      config,
      [&](std::string_view section, std::string_view name, const auto& member, const Rule&) {
        OrderedJson& parent = section.empty() ? json : json[std::string(section)];
        parent[std::string(name)] = OrderedJson(write_value(member));
      });
  return json;
}

std::vector<ConfigChange> compare_for_resume(const RunConfig& stored, const RunConfig& wanted) {
  const std::vector<FlatField> before = flatten(stored);
  const std::vector<FlatField> after = flatten(wanted);
  std::vector<ConfigChange> changes;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].value == after[i].value) continue;
    changes.push_back({before[i].key,
                       show_whole(before[i].value),
                       show_whole(after[i].value),
                       before[i].on_resume == OnResume::kMayChange});
  }
  return changes;
}

void require_allowed(const std::vector<ConfigChange>& changes, const std::string& origin) {
  std::string lines;
  for (const ConfigChange& change : changes) {
    if (change.allowed) continue;
    lines +=
        fmt::format("\n  {}: {} in the run, {} wanted", change.key, change.before, change.after);
  }
  if (lines.empty()) return;
  throw ConfigError(
      fmt::format("{}: a run goes on only with the settings it was started with. These differ:{}\n"
                  "Leave them as they were, or start a new run with another --run-dir.",
                  origin,
                  lines));
}

}  // namespace tril
