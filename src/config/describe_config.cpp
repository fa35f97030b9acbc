// configs/README.md, from the structs themselves.

#include <fmt/format.h>

#include <algorithm>

#include "for_each_field.h"
#include "tril/config/json_reader.h"
#include "tril/config/run_config.h"

namespace tril {

namespace {

constexpr std::string_view kIntroduction =
    R"(# Configuration

A config is a JSON object. Every key has a default, so `{}` is a whole config; unknown keys, wrong
types, keys given twice and impossible values are errors. JSON has no comments.

```json
{
  "extends": "quickstart.json",
  "data": {"train": "../data/my_text.txt"},
  "model": {"preset": "gpt2", "n_blocks": 6},
  "train": {"steps": 2000}
}
```

- **Layers.** First the defaults, then the file named by `extends` (relative to the file that extends;
  up to 16 deep), then the file itself, then each `--set KEY=VALUE` in the order given:
  `tril train --config configs/quickstart.json --set train.batch_size=8 --set data.train=my_text.txt`.
  The last value of a key wins. A value of `--set` is JSON where it can be read as JSON, else text.
- **Alternatives.** `train.steps`, `train.tokens` and `train.epochs` exclude each other, and so do
  `train.accumulation` and `train.tokens_per_step`. One given in a later layer replaces the other of
  an earlier layer; both in one layer are an error.
- **Paths** inside a file are relative to that file; `run_dir`, and paths in `--set`, to the working
  folder. A run stores them absolute. A path needs a `/` or a `.` in it (`./tales` is a file).
- **Resume.** Keys marked *yes* may have another value when a run goes on, with a notice. All others
  are fixed when the run starts, and another value is refused by name.

This page is written by the program; a test compares it with the keys that exist.
)";

constexpr std::string_view kSchedule =
    R"(
## The learning-rate curve

Steps are s = 1 ... N; w is `schedule.warmup_steps`, d is `schedule.decay_steps` or its rule, r is
`min_learning_rate / learning_rate`. The learning rate of step s is `optimizer.learning_rate` times f:

| part | f(s) | where p runs from 0 to 1 |
| --- | --- | --- |
| warm-up, s <= w | s / (w + 1): never 0, and 1 at step w + 1 | |
| `constant` | 1 | |
| `cosine` | r + (1 - r) (1 + cos(pi p)) / 2 | from step w + 1 to step d; r after that |
| `linear` | r + (1 - r) (1 - p) | the same |
| `wsd` | 1, then r + (1 - r) (1 - p) | from step N - d to step N |
)";

std::string code(std::string_view text) {
  return fmt::format("`{}`", text);
}

std::string yes_no(OnResume on_resume) {
  return on_resume == OnResume::kMayChange ? "yes" : "no";
}

/// Does the value of this model key depend on the preset?
bool by_preset(std::string_view section, std::string_view name) {
  if (section != "model" || name == "preset") return false;
  const auto value_in = [&](Preset preset) {
    RunConfig config;
    apply_preset(config.model, preset);
    return to_json(config)["model"][std::string(name)];
  };
  return std::any_of(std::begin(kPresetNames), std::end(kPresetNames), [&](const auto& preset) {
    return value_in(preset.value) != value_in(Preset::kModern);
  });
}

std::string quoted_choices(std::string_view choices, char separator) {
  std::string text;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find(separator), choices.size());
    const std::string_view word = choices.substr(0, end);
    if (!word.empty()) text += (text.empty() ? "" : ", ") + code(word);
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return text;
}

/// What a key of this type accepts.
template <typename T>
std::string allowed_values(const Rule& rule) {
  if (!rule.allowed.empty()) return std::string(rule.allowed);
  const std::string range = describe_range(rule);
  const std::string unit = rule.unit.empty() ? "" : fmt::format(" {}", rule.unit);
  if constexpr (std::is_enum_v<T>) {
    std::string text;
    for (const EnumName<T>& entry : enum_names(T{})) {
      text += (text.empty() ? "" : ", ") + code(entry.name);
    }
    return text;
  } else if constexpr (std::is_same_v<T, bool>) {
    return "`true`, `false`";
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (rule.path == PathBase::kNone) return "text";
    const std::string keywords = quoted_choices(rule.keywords, '|');
    return keywords.empty() ? "path" : keywords + " or a path";
  } else if constexpr (std::is_same_v<T, TrainFiles>) {
    return quoted_choices(rule.keywords, '|') + ", a path, or a list";
  } else if constexpr (std::is_same_v<T, double>) {
    return range.empty() ? "number" + unit : range + unit;
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    return "`null`, " + range + unit;
  } else {
    return "whole number, " + range + unit;
  }
}

std::string key_tables() {
  const RunConfig defaults;
  std::string text;
  std::string_view current = "none yet";
  for_each_field(
      defaults,
      [&](std::string_view section, std::string_view name, const auto& member, const Rule& rule) {
        if (section != current) {
          current = section;
          text += section.empty() ? std::string("\n## Top level\n\n")
                                  : fmt::format("\n## `{}`\n\n", section);
          text += "| key | default | allowed | on resume | meaning |\n";
          text += "| --- | --- | --- | --- | --- |\n";
          if (section.empty()) {
            text +=
                "| `extends` | | path of a config file | | the file whose values this one "
                "starts from; in files only |\n";
          }
        }
        using Member = std::remove_cvref_t<decltype(member)>;
        text +=
            fmt::format("| {} | {} | {} | {} | {} |\n",
                        code(name),
                        by_preset(section, name) ? "*by preset*" : code(write_value(member).dump()),
                        allowed_values<Member>(rule),
                        yes_no(rule.on_resume),
                        rule.meaning);
      });
  return text;
}

std::string preset_table() {
  std::string text =
      "\n## Presets\n\nWhat `model.preset` sets. Sizes and all other keys have one default.\n\n| "
      "key |";
  std::string rule = "| --- |";
  for (const auto& preset : kPresetNames) {
    text += fmt::format(" `{}` |", preset.name);
    rule += " --- |";
  }
  text += '\n' + rule + '\n';
  const OrderedJson model = to_json(RunConfig{})["model"];
  for (const auto& [name, value] : model.items()) {
    if (!by_preset("model", name)) continue;
    text += fmt::format("| {} |", code(name));
    for (const auto& preset : kPresetNames) {
      RunConfig config;
      apply_preset(config.model, preset.value);
      const OrderedJson chosen = to_json(config)["model"][name];
      text += fmt::format(" {} |", chosen.is_string() ? chosen.get<std::string>() : chosen.dump());
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string describe_config() {
  return std::string(kIntroduction) + key_tables() + preset_table() + std::string(kSchedule);
}

}  // namespace tril
