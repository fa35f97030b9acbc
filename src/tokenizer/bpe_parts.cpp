#include "bpe_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tril/base/utf8.h"

namespace tril {

int32_t BpeParts::checked_id(const std::string& name, const Json& id) const {
  if (id.is_number_integer() && id >= 0 && id < kMaxBpeVocabulary) return id.get<int32_t>();
  throw DataError(
      fmt::format("{}: the token \"{}\" has the id {}: expected a whole number below {}",
                  origin_,
                  escape_for_message(name),
                  escape_for_message(dump_json(id, -1), 40),
                  kMaxBpeVocabulary));
}

void BpeParts::place(int32_t id, std::string bytes) {
  auto& tokens = vocabulary_.tokens;
  const auto at = static_cast<size_t>(id);
  if (at >= tokens.size()) tokens.resize(at + 1);
  if (!tokens[at].empty()) {
    throw DataError(fmt::format("{}: two tokens have the id {}: \"{}\" and \"{}\"",
                                origin_,
                                id,
                                escape_for_message(tokens[at]),
                                escape_for_message(bytes)));
  }
  tokens[at] = std::move(bytes);
}

void BpeParts::add_token(const std::string& name, const Json& id_json) {
  const int32_t id = checked_id(name, id_json);
  if (name.empty()) throw DataError(fmt::format("{}: the token of id {} is empty", origin_, id));
  const std::optional<std::string> bytes = bytes_of_gpt2_characters(name);
  place(id, bytes.value_or(name));
  // A name in other characters is written in GPT-2's, which must then be no other token's name.
  bool is_new = id_of_.emplace(name, id).second;
  if (!bytes) is_new &= id_of_.emplace(gpt2_characters(name), id).second;
  if (!is_new) {
    throw DataError(
        fmt::format("{}: the token \"{}\" occurs twice", origin_, escape_for_message(name)));
  }
}

void BpeParts::add_special(const std::string& text, const Json& id_json) {
  const int32_t id = checked_id(text, id_json);
  if (text.empty())
    throw DataError(fmt::format("{}: the added token of id {} is empty", origin_, id));
  const auto known_id = id_of_.find(text);
  if (known_id == id_of_.end()) {
    place(id, text);
    id_of_.emplace(text, id);
  } else if (known_id->second == id) {
    vocabulary_.tokens[static_cast<size_t>(id)] = text;
  } else {
    throw DataError(fmt::format("{}: the added token \"{}\" has the ids {} and {}",
                                origin_,
                                escape_for_message(text),
                                known_id->second,
                                id));
  }
  vocabulary_.special.push_back({text, id});
}

int32_t BpeParts::known(std::string_view name) const {
  const auto found = id_of_.find(std::string(name));
  if (found != id_of_.end()) return found->second;
  throw DataError(fmt::format("{}: merge {} needs the token \"{}\", which the vocabulary has not",
                              origin_,
                              vocabulary_.merges.size(),
                              escape_for_message(name)));
}

void BpeParts::add_merge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw DataError(fmt::format("{}: merge {} is \"{}\": expected two tokens with a space between",
                                origin_,
                                vocabulary_.merges.size(),
                                escape_for_message(line)));
  }
  add_merge(line.substr(0, space), line.substr(space + 1));
}

void BpeParts::add_merge(std::string_view left, std::string_view right) {
  const int32_t result = known(std::string(left) + std::string(right));
  vocabulary_.merges.push_back({known(left), known(right), result});
}

void BpeParts::make_others_special() {
  std::vector<bool> is_made(vocabulary_.tokens.size());
  for (const BpeMerge& merge : vocabulary_.merges)
    is_made[static_cast<size_t>(merge.result)] = true;
  for (size_t id = 0; id < is_made.size(); ++id) {
    const std::string& token = vocabulary_.tokens[id];
    if (is_made[id] || token.size() <= 1) continue;
    vocabulary_.special.push_back({token, static_cast<int64_t>(id)});
  }
}

BpeVocabulary BpeParts::finish(bool whole_pieces_first) && {
  std::sort(vocabulary_.special.begin(),
            vocabulary_.special.end(),
            [](const SpecialToken& a, const SpecialToken& b) { return a.id < b.id; });
  for (size_t i = 1; i < vocabulary_.special.size(); ++i) {
    if (vocabulary_.special[i].id != vocabulary_.special[i - 1].id) continue;
    throw DataError(
        fmt::format("{}: added_tokens holds the id {} twice", origin_, vocabulary_.special[i].id));
  }
  vocabulary_.whole_pieces_first = whole_pieces_first;
  return std::move(vocabulary_);
}

}  // namespace tril
