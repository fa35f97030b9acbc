#include "known_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "for_each_field.h"
#include "tril/config/json_reader.h"

namespace tril {

namespace {

/// Every key, in the order of the documentation.
const std::vector<KnownKey>& known_keys() {
  static const std::vector<KnownKey> kKeys = [] {
    std::vector<KnownKey> keys;
    RunConfig config;
    for_each_field(
        config,
        [&](std::string_view section, std::string_view name, const auto& member, const Rule&) {
          using Member = std::remove_cvref_t<decltype(member)>;
          keys.push_back({.section = std::string(section),
                          .name = std::string(name),
                          .is_text = std::is_same_v<Member, std::string>,
                          .is_text_or_list = std::is_same_v<Member, TrainFiles>});
        });
    return keys;
  }();
  return kKeys;
}

/// What other trainers call our keys.
std::optional<std::string_view> translate(std::string_view foreign) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"n_layer", "model.n_blocks"},
      {"n_layers", "model.n_blocks"},
      {"num_layers", "model.n_blocks"},
      {"num_heads", "model.n_head"},
      {"num_key_value_heads", "model.n_kv_head"},
      {"d_model", "model.n_embed"},
      {"n_embd", "model.n_embed"},
      {"block_size", "model.context_length"},
      {"seq_len", "model.context_length"},
      {"max_iters", "train.steps"},
      {"max_steps", "train.steps"},
      {"num_epochs", "train.epochs"},
      {"gradient_accumulation_steps", "train.accumulation"},
      {"dtype", "train.precision"},
      {"eval_iters", "train.eval_tokens"},
      {"lr", "optimizer.learning_rate"},
      {"max_lr", "optimizer.learning_rate"},
      {"min_lr", "schedule.min_learning_rate"},
      {"warmup_iters", "schedule.warmup_steps"},
      {"lr_decay_iters", "schedule.decay_steps"},
      {"out_dir", "run_dir"},
      {"dataset", "data.train"},
  };
  for (const auto& [name, ours] : kNames) {
    if (name == foreign) return ours;
  }
  return std::nullopt;
}

}  // namespace

std::string KnownKey::dotted() const {
  return dotted_key(section, name);
}

const KnownKey* find_key(std::string_view section, std::string_view name) {
  for (const KnownKey& key : known_keys()) {
    if (key.section == section && key.name == name) return &key;
  }
  return nullptr;
}

std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  if (section.empty()) names.emplace_back("extends");
  for (const KnownKey& key : known_keys()) {
    const std::string& name = section.empty() && !key.section.empty() ? key.section : key.name;
    const bool inside = section.empty() || key.section == section;
    if (inside && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool is_section(std::string_view name) {
  return std::any_of(known_keys().begin(), known_keys().end(), [&](const KnownKey& key) {
    return !key.section.empty() && key.section == name;
  });
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string suggest(std::string_view section, std::string_view name) {
  // A section in wrong case.
  if (section.empty()) {
    for (const std::string& ours : names_in("")) {
      if (name.size() == ours.size() && edit_distance(name, ours) == 0) {
        return fmt::format("Did you mean \"{}\"? Case matters.", ours);
      }
    }
  }
  // A right name in a wrong place, or in wrong case ("" is a place too).
  for (const bool same_section : {true, false}) {
    for (const KnownKey& key : known_keys()) {
      if ((key.section == section) != same_section) continue;
      if (name.size() != key.name.size() || edit_distance(name, key.name) != 0) continue;
      if (same_section) return fmt::format("Did you mean \"{}\"? Case matters.", key.dotted());
      if (key.section.empty()) {
        return fmt::format("\"{}\" belongs to the top level, outside \"{}\".", key.name, section);
      }
      return fmt::format("\"{}\" belongs to \"{}\": {}.", key.name, key.section, key.dotted());
    }
  }
  if (const auto ours = translate(name)) return fmt::format("tril calls it \"{}\".", *ours);
  const size_t dot = name.find('.');
  if (section.empty() && dot != std::string_view::npos) {
    const std::string_view first = name.substr(0, dot);
    const std::string_view second = name.substr(dot + 1);
    if (find_key(first, second) != nullptr) {
      return fmt::format("In a file it is written {{\"{}\": {{\"{}\": ...}}}}.", first, second);
    }
  }
  // A misspelt name: here first, then anywhere.
  std::optional<std::string> best = nearest(name, names_in(section));
  if (best) best = dotted_key(section, *best);
  size_t best_distance = best ? edit_distance(dotted_key(section, name), *best) : name.size();
  for (const KnownKey& key : known_keys()) {
    if (!nearest(name, {key.name}) || edit_distance(name, key.name) >= best_distance) continue;
    best = key.dotted();
    best_distance = edit_distance(name, key.name);
  }
  if (best) return fmt::format("Did you mean \"{}\"?", *best);
  const std::string where = section.empty() ? "the top level" : fmt::format("\"{}\"", section);
  return fmt::format("Keys of {}: {}.", where, join(names_in(section)));
}

}  // namespace tril
