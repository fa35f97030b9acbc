#include "train_banner.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cmath>

#include "tril/model/autocast.h"
#include "tril/train/progress.h"
#include "version.h"

namespace tril::cli {
namespace {

int64_t tokens_per_step(const RunStart& start) {
  const int64_t context = start.config.model.context_length;
  return start.config.train.windows_per_step(context) * context;
}

double epochs(const RunStart& start) {
  return static_cast<double>(start.total_steps) * static_cast<double>(tokens_per_step(start)) /
         static_cast<double>(start.data.train.size());
}

/// ln V: what a model that knows nothing loses per token.
double first_loss(const RunStart& start) {
  return std::log(static_cast<double>(start.config.model.vocab_size));
}

std::string when_saved(const RunStart& start) {
  const CheckpointConfig& c = start.config.checkpoint;
  std::string text;
  if (c.interval > 0) text += fmt::format("every {} steps, ", c.interval);
  if (c.interval_minutes > 0) text += fmt::format("every {} minutes, ", c.interval_minutes);
  if (c.keep_best && start.data.validation) text += "at each best validation loss, ";
  return text + "at the end, and on Ctrl-C";
}

}  // namespace

void print_banner(const RunStart& start) {
  const ModelConfig& m = start.config.model;
  spdlog::info("run         {}", start.folder.root().string());
  spdlog::info("device      {}, {} threads, {}, attention {}{}",
               start.choices.device.str(),
               start.choices.threads,
               precision_name(start.choices.precision),
               enum_name(m.attention),
               start.choices.peak_flops > 0
                   ? fmt::format("; matrix products reach {:.0f} GFLOP/s here",
                                 start.choices.peak_flops / 1e9)
                   : "");
  if (start.group != nullptr) {
    spdlog::info("processes   {} over {}, {} of the windows each, optimizer {}{}",
                 start.group->size(),
                 start.group->name(),
                 start.config.train.batch_size % start.group->size() == 0
                     ? fmt::format("{} of {}",
                                   start.config.train.batch_size / start.group->size(),
                                   start.config.train.batch_size)
                     : fmt::format("about 1/{}", start.group->size()),
                 start.config.distributed.shard == Shard::kNone ? "in each" : "shared out",
                 start.config.distributed.shard == Shard::kFull ? ", weights too" : "");
  }
  spdlog::info(
      "model       {} parameters: {} blocks, {} heads of {}, width {}, context {}, vocabulary {}",
      format_count(static_cast<double>(parameter_count(m))),
      m.n_blocks,
      m.n_head,
      m.head_size(),
      m.n_embed,
      m.context_length,
      m.vocab_size);
  spdlog::info("data        {} training tokens, {}",
               start.data.train.size(),
               start.data.validation
                   ? fmt::format("{} validation tokens", start.data.validation->size())
                   : std::string("validation off"));
  if (start.steps_done >= start.total_steps) {
    spdlog::info("plan        all {} steps are done; more: --set train.steps=N", start.total_steps);
    return;
  }
  spdlog::info(
      "plan        steps {} to {}, {} tokens each ({:.2f} epochs in all); {}",
      start.steps_done + 1,
      start.total_steps,
      tokens_per_step(start),
      epochs(start),
      start.steps_done == 0
          ? fmt::format("expected first loss {:.3f} = ln {}", first_loss(start), m.vocab_size)
          : std::string("going on"));
  spdlog::info("saves       {}", when_saved(start));
  spdlog::info("memory      about {}{}",
               format_bytes(start.memory.peak()),
               start.group == nullptr ? "" : " in each process");
}

OrderedJson start_event(const RunStart& start) {
  OrderedJson json;
  json["time"] = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  json["version"] = version_text();
  json["build"] = build_text();
  json["device"] = start.choices.device.str();
  json["cpu_capability"] = at::get_cpu_capability();
  json["threads"] = start.choices.threads;
  json["processes"] = start.group == nullptr ? 1 : start.group->size();
  json["precision"] = precision_name(start.choices.precision);
  json["attention"] = enum_name(start.config.model.attention);
  json["parameters"] = parameter_count(start.config.model);
  json["vocab_size"] = start.config.model.vocab_size;
  json["expected_first_loss"] = first_loss(start);
  json["train_tokens"] = start.data.train.size();
  json["validation_tokens"] = start.data.validation ? start.data.validation->size() : 0;
  json["total_steps"] = start.total_steps;
  json["tokens_per_step"] = tokens_per_step(start);
  json["flops_per_token"] = flops_per_token(start.config.model);
  json["peak_flops"] = start.choices.peak_flops;
  json["memory_estimate_bytes"] = start.memory.peak();
  return json;
}

}  // namespace tril::cli
