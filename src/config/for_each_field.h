#pragma once
// Walks over every key of a RunConfig: the one loop behind reading, writing, comparing, describing.

#include <string>
#include <string_view>
#include <utility>

#include "tril/config/run_config.h"

namespace tril {

/// What the structs' `visit` functions talk to; calls f(section, name, member, rule).
template <typename F>
class FieldWalker {
 public:
  explicit FieldWalker(F& f) : f_(f) {}

  template <typename T>
  void field(std::string_view name, T& member, const Rule& rule) {
    f_(section_, name, member, rule);
  }
  template <typename Section>
  void section(std::string_view name, Section& section) {
    section_ = name;
    Section::visit(section, *this);
    section_ = {};
  }

 private:
  F& f_;
  std::string_view section_;
};

/// Calls f(std::string_view section, std::string_view name, T& member, const Rule&) for each key;
/// the section of top-level keys is "".
template <typename Config, typename F>
void for_each_field(Config& config, F&& f) {
  FieldWalker<std::remove_reference_t<F>> walker(f);
  RunConfig::visit(config, walker);
}

/// "train", "steps" -> "train.steps"; "", "seed" -> "seed".
inline std::string dotted_key(std::string_view section, std::string_view name) {
  std::string key(section);
  if (!key.empty()) key += '.';
  key += name;
  return key;
}

}  // namespace tril
