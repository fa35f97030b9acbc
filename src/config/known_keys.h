#pragma once
// Which keys there are, and which one was meant.

#include <string>
#include <string_view>
#include <vector>

namespace tril {

struct KnownKey {
  std::string section;  ///< "" at the top level
  std::string name;
  bool is_text = false;
  bool is_text_or_list = false;
  std::string dotted() const;
};

/// nullptr when there is no such key.
const KnownKey* find_key(std::string_view section, std::string_view name);

bool is_section(std::string_view name);

/// The names directly inside a section; for the top level its keys, then the sections.
std::vector<std::string> names_in(std::string_view section);

/// "steps, tokens"
std::string join(const std::vector<std::string>& words);

/// A sentence for an unknown key of `section`: the key that was meant, or all there are.
std::string suggest(std::string_view section, std::string_view name);

}  // namespace tril
