// Layers: defaults, what a file extends, the file, --set. Also the search for the key that was
// meant.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "for_each_field.h"
#include "known_keys.h"
#include "tril/base/error.h"
#include "tril/base/utf8.h"
#include "tril/config/json_reader.h"
#include "tril/config/run_config.h"

namespace tril {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxExtends = 16;

[[noreturn]] void refuse_unknown(const std::string& origin,
                                 std::string_view section,
                                 std::string_view name,
                                 const Json& value) {
  throw ConfigError(fmt::format("{}: unknown key \"{}\" (value {}). {}",
                                origin,
                                escape_for_message(dotted_key(section, name)),
                                show_value(value),
                                suggest(section, name)));
}

struct Setting {
  Json value;
  Place place;
};
/// Values of one file, or of all --set together, by dotted key.
using Layer = std::map<std::string, Setting, std::less<>>;

/// Flattens a config object; refuses what it does not know. `extends` is left to the caller.
Layer layer_from_json(const Json& json,
                      const std::string& origin,
                      const fs::path& folder,
                      bool may_extend) {
  if (!json.is_object()) {
    throw ConfigError(fmt::format(
        "{}: the top level must be an object, {{...}}; found {}.", origin, show_value(json)));
  }
  Layer layer;
  const auto add = [&](std::string_view section, const std::string& name, const Json& value) {
    if (find_key(section, name) == nullptr) refuse_unknown(origin, section, name, value);
    const std::string key = dotted_key(section, name);
    layer.emplace(key, Setting{value, {origin, key, folder}});
  };
  for (const auto& [name, value] : json.items()) {
    if (may_extend && name == "extends") continue;
    if (!is_section(name)) {
      add("", name, value);
      continue;
    }
    if (!value.is_object()) {
      throw ConfigError(fmt::format("{}: {} must be an object with keys {}; found {}.",
                                    origin,
                                    name,
                                    join(names_in(name)),
                                    show_value(value)));
    }
    for (const auto& [inner_name, inner_value] : value.items()) add(name, inner_name, inner_value);
  }
  return layer;
}

/// Appends the layers of `file`: first what it extends, then its own. `chain` holds the files that
/// extend this one.
void read_layers(const fs::path& file, std::vector<fs::path>& chain, std::vector<Layer>& layers) {
  std::error_code error;
  fs::path identity = fs::weakly_canonical(file, error);
  if (error) identity = file.lexically_normal();
  const bool is_cycle = std::find(chain.begin(), chain.end(), identity) != chain.end();
  chain.push_back(identity);
  if (is_cycle || chain.size() > kMaxExtends + 1) {
    std::string names;
    for (const fs::path& link : chain) {
      names += (names.empty() ? "" : " -> ") + link.filename().string();
    }
    const std::string reason =
        is_cycle ? "the files extend each other in a circle"
                 : fmt::format("files extend each other more than {} deep", kMaxExtends);
    throw ConfigError(fmt::format("{}: extends: {}: {}.", file.string(), reason, names));
  }
  const Json json = read_json_file(file, FileRole::kConfig);
  Layer layer = layer_from_json(json, file.string(), file.parent_path(), /*may_extend=*/true);
  if (const auto extends = json.find("extends"); extends != json.end()) {
    const std::string base = extends->is_string() ? extends->get<std::string>() : "";
    if (base.empty() || base.find('\0') != std::string::npos) {
      refuse_value({file.string(), "extends"}, "the path of another config file", *extends);
    }
    const fs::path base_file = (file.parent_path() / base).lexically_normal();
    if (!fs::exists(base_file, error)) {
      throw ConfigError(
          fmt::format("{}: extends: there is no file {} (the path is relative to the "
                      "file that extends).",
                      file.string(),
                      base_file.string()));
    }
    read_layers(base_file, chain, layers);
  }
  layers.push_back(std::move(layer));
}

/// The value of a --set: JSON, else the text as it stands. For a text key only a JSON string is
/// JSON, so that run_dir=2024 is a name.
Json parse_set_value(std::string_view text, const KnownKey& key, const std::string& origin) {
  if (find_invalid_utf8(text)) {
    throw ConfigError(fmt::format("{}: the value must be UTF-8 text.", origin));
  }
  Json value;
  try {
    value = parse_json(text, origin, FileRole::kConfig);
  } catch (const ConfigError&) {
    return std::string(text);
  }
  const bool is_list = key.is_text_or_list && value.is_array();
  if ((key.is_text || key.is_text_or_list) && !value.is_string() && !is_list) {
    return std::string(text);
  }
  return value;
}

Layer layer_from_sets(const std::vector<std::string>& sets) {
  Layer layer;
  for (const std::string& set : sets) {
    const std::string origin = "--set " + escape_for_message(set);
    const size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(
          fmt::format("{}: expected KEY=VALUE, such as --set train.steps=500.", origin));
    }
    const std::string_view dotted = std::string_view(set).substr(0, equals);
    const std::string_view text = std::string_view(set).substr(equals + 1);
    const size_t dot = dotted.find('.');
    const bool has_section = dot != std::string_view::npos;
    const std::string_view section = has_section ? dotted.substr(0, dot) : std::string_view{};
    const std::string_view name = has_section ? dotted.substr(dot + 1) : dotted;
    if (!has_section && is_section(name)) {
      throw ConfigError(fmt::format(
          "{}: {} is a section; set one of its keys: {}.", origin, name, join(names_in(name))));
    }
    if (!has_section && name == "extends") {
      throw ConfigError(fmt::format("{}: extends stands in a config file only.", origin));
    }
    if (find_invalid_utf8(dotted)) throw ConfigError(origin + ": the key must be UTF-8 text.");
    const KnownKey* key = find_key(section, name);
    if (key == nullptr) {
      if (has_section && !is_section(section)) {
        const std::optional<std::string> meant = nearest(section, names_in(""));
        throw ConfigError(fmt::format("{}: unknown section \"{}\". {}",
                                      origin,
                                      escape_for_message(section),
                                      meant && is_section(*meant)
                                          ? fmt::format("Did you mean \"{}\"?", *meant)
                                          : suggest("", name)));
      }
      refuse_unknown(origin, section, name, std::string(text));
    }
    layer.insert_or_assign(
        key->dotted(), Setting{parse_set_value(text, *key, origin), {origin, key->dotted(), {}}});
  }
  return layer;
}

/// Is the key in the layer with a value other than "not given"?
bool gives(const Layer& layer, std::string_view key) {
  const auto found = layer.find(key);
  if (found == layer.end() || found->second.value.is_null()) return false;
  const Json& value = found->second.value;
  return !(value.is_number() && value.get<double>() == 0);
}

/// Alternatives replace each other across layers: `tokens` on the command line wins over `steps` of
/// the file. Two in one layer stay, and validate() refuses them.
void clear_alternatives(TrainConfig& train, const Layer& layer) {
  if (gives(layer, "train.steps") || gives(layer, "train.tokens") || gives(layer, "train.epochs")) {
    train.steps = 0;
    train.tokens = 0;
    train.epochs = 0;
  }
  if (gives(layer, "train.tokens_per_step")) {
    train.accumulation = 1;
  } else if (gives(layer, "train.accumulation")) {
    train.tokens_per_step = 0;
  }
}

void apply_layers(RunConfig& config, const std::vector<Layer>& layers) {
  // The last preset decides, and every explicit key of any layer overrides it.
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const auto setting = layer->find("model.preset");
    if (setting == layer->end()) continue;
    Preset preset{};
    read_value(setting->second.value, {}, setting->second.place, preset);
    apply_preset(config.model, preset);
    break;
  }
  for (const Layer& layer : layers) {
    clear_alternatives(config.train, layer);
    for_each_field(
        config,
        [&](std::string_view section, std::string_view name, auto& member, const Rule& rule) {
          const auto setting = layer.find(dotted_key(section, name));
          if (setting == layer.end()) return;
          read_value(setting->second.value, rule, setting->second.place, member);
        });
  }
}

std::string with_sets(std::string origin, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) origin += " --set " + escape_for_message(set);
  return origin;
}

}  // namespace

std::string config_name(const std::optional<fs::path>& file) {
  const std::string name = file ? file->stem().string() : "";
  return name.empty() ? "default" : name;
}

RunConfig load_run_config(const std::optional<fs::path>& file,
                          const std::vector<std::string>& sets,
                          const ModelConfig* base_model) {
  std::vector<Layer> layers;
  std::vector<fs::path> chain;
  if (file) read_layers(*file, chain, layers);
  layers.push_back(layer_from_sets(sets));
  RunConfig config;
  if (base_model != nullptr) config.model = *base_model;
  apply_layers(config, layers);
  if (config.run_dir.empty()) {
    const Rule rule{.path = PathBase::kWorkingFolder};
    read_value("runs/" + config_name(file), rule, {"default", "run_dir"}, config.run_dir);
  }
  validate(config, with_sets(file ? file->string() : "defaults", sets));
  return config;
}

RunConfig run_config_from_json(const Json& json, const std::string& origin) {
  RunConfig config;
  apply_layers(config, {layer_from_json(json, origin, {}, /*may_extend=*/false)});
  validate(config, origin);
  return config;
}

RunConfig override_run_config(RunConfig base, const std::vector<std::string>& sets) {
  apply_layers(base, {layer_from_sets(sets)});
  validate(base, with_sets("stored config", sets));
  return base;
}

}  // namespace tril
