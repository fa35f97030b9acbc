#include "tril/optim/parameter_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "tril/base/error.h"

namespace tril {

std::optional<int64_t> block_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blocks.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t block = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), block);
  return error == std::errc() ? std::optional(block) : std::nullopt;
}

std::vector<std::string> split_patterns(std::string_view text) {
  std::vector<std::string> patterns;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t first = part.find_first_not_of(' ');
    if (first == std::string_view::npos) continue;
    part = part.substr(first, part.find_last_not_of(' ') - first + 1);
    patterns.emplace_back(part);
  }
  return patterns;
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  // Greedy with one place to come back to: the last star.
  size_t n = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<NamedTensor> without_frozen(const std::vector<NamedTensor>& parameters,
                                        std::string_view frozen) {
  const std::vector<std::string> patterns = split_patterns(frozen);
  for (const std::string& pattern : patterns) {
    const bool matches_any =
        std::any_of(parameters.begin(), parameters.end(), [&](const NamedTensor& parameter) {
          return matches_pattern(parameter.name, pattern);
        });
    if (matches_any) continue;
    throw ConfigError(fmt::format(
        "optimizer.frozen: no parameter matches \"{}\". Names are such as token_embedding.weight, "
        "blocks.0.attn.heads.0.query.weight, blocks.0.ffn.up.weight, final_norm.weight",
        pattern));
  }
  std::vector<NamedTensor> result;
  for (const NamedTensor& parameter : parameters) {
    const bool is_frozen =
        std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
          return matches_pattern(parameter.name, pattern);
        });
    if (is_frozen) {
      parameter.tensor.set_requires_grad(false);
    } else {
      result.push_back(parameter);
    }
  }
  if (result.empty()) {
    throw ConfigError("optimizer.frozen: it matches every parameter; nothing is left to train");
  }
  return result;
}

LayerRates::LayerRates(const std::vector<NamedTensor>& parameters, double decay) : decay_(decay) {
  for (const NamedTensor& parameter : parameters) {
    n_blocks_ = std::max(n_blocks_, block_of(parameter.name).value_or(-1) + 1);
  }
}

double LayerRates::factor(std::string_view name) const {
  if (const auto block = block_of(name)) {
    return std::pow(decay_, static_cast<double>(n_blocks_ - 1 - *block));
  }
  const bool is_embedding =
      name.starts_with("token_embedding.") || name.starts_with("position_embedding.");
  return is_embedding ? std::pow(decay_, static_cast<double>(n_blocks_)) : 1.0;
}

}  // namespace tril
