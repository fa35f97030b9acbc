// tokenizer.json of Hugging Face's `tokenizers`: read and written.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpe_parts.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"

namespace tril {
namespace {

/// A member that may be absent; then null.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

std::string short_dump(const Json& value) {
  return escape_for_message(dump_json(value, -1), 60);
}

class Reader {
 public:
  Reader(const Json& json, const std::string& origin) : json_(json), origin_(origin) {}

  BpeVocabulary read() const {
    check_surroundings();
    const Json& model = member(json_, "model");
    check_model(model);
    BpeParts parts(quoted());
    for (const auto& [token, id] : member(model, "vocab").items()) parts.add_token(token, id);
    for (const Json& token : list(json_, "added_tokens")) add_special(token, parts);
    for (const Json& merge : list(model, "merges")) add_merge(merge, parts);
    const Json& ignore_merges = member(model, "ignore_merges");
    return std::move(parts).finish(ignore_merges.is_boolean() && ignore_merges.get<bool>());
  }

 private:
  std::string quoted() const { return fmt::format("'{}'", origin_); }

  [[noreturn]] void unsupported(const std::string& what, const Json& found) const {
    throw DataError(fmt::format(
        "'{}' is a tokenizer that tril does not have: {} is {}; supported is byte-level BPE as "
        "GPT-2's (model BPE, pre_tokenizer ByteLevel without add_prefix_space, no normalizer)",
        origin_,
        what,
        short_dump(found)));
  }

  const Json& list(const Json& object, const char* key) const {
    static const Json empty = Json::array();
    const Json& value = member(object, key);
    if (value.is_null()) return empty;
    if (!value.is_array()) {
      throw DataError(
          fmt::format("'{}': \"{}\" must be a list, found {}", origin_, key, value.type_name()));
    }
    return value;
  }

  void check_surroundings() const {
    const Json& normalizer = member(json_, "normalizer");
    if (!normalizer.is_null()) unsupported("\"normalizer\"", normalizer);
    const Json& pre = member(json_, "pre_tokenizer");
    if (!pre.is_object() || member(pre, "type") != "ByteLevel") {
      unsupported("\"pre_tokenizer\"", pre);
    }
    if (member(pre, "add_prefix_space") != false) unsupported("add_prefix_space", pre);
    if (member(pre, "use_regex") == false) unsupported("use_regex", pre);
  }

  void check_model(const Json& model) const {
    if (!model.is_object()) unsupported("\"model\"", model);
    const Json& type = member(model, "type");  // absent in old files
    if (!type.is_null() && type != "BPE") unsupported("the model's type", type);
    const Json& dropout = member(model, "dropout");
    if (!dropout.is_null() && dropout != 0) unsupported("\"dropout\"", dropout);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& affix = member(model, key);
      if (!affix.is_null() && affix != "") unsupported(fmt::format("\"{}\"", key), affix);
    }
    if (member(model, "byte_fallback") == true) {
      unsupported("\"byte_fallback\"", member(model, "byte_fallback"));
    }
    if (!member(model, "vocab").is_object()) unsupported("\"vocab\"", member(model, "vocab"));
  }

  void add_special(const Json& token, BpeParts& parts) const {
    if (!token.is_object() || !member(token, "content").is_string()) {
      throw DataError(
          fmt::format("'{}': added_tokens holds {}: expected an object with "
                      "\"content\" and \"id\"",
                      origin_,
                      short_dump(token)));
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (member(token, key) == true) unsupported("an added token", token);
    }
    parts.add_special(member(token, "content").get_ref<const std::string&>(), member(token, "id"));
  }

  /// "a b", or ["a", "b"] in newer files.
  void add_merge(const Json& merge, BpeParts& parts) const {
    if (merge.is_string()) return parts.add_merge(merge.get_ref<const std::string&>());
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return parts.add_merge(merge[0].get_ref<const std::string&>(),
                             merge[1].get_ref<const std::string&>());
    }
    throw DataError(
        fmt::format("'{}': merges holds {}: expected two tokens", origin_, short_dump(merge)));
  }

  const Json& json_;
  const std::string& origin_;
};

OrderedJson byte_level() {
  OrderedJson json;
  json["type"] = "ByteLevel";
  json["add_prefix_space"] = false;
  json["trim_offsets"] = false;
  json["use_regex"] = true;
  return json;
}

}  // namespace

BpeVocabulary bpe_from_huggingface_json(const Json& json, const std::string& origin) {
  return Reader(json, origin).read();
}

OrderedJson BpeTokenizer::to_json() const {
  const BpeVocabulary& parts = vocabulary();
  std::vector<std::string> names;  // as the file writes them
  names.reserve(parts.tokens.size());
  for (const std::string& token : parts.tokens) names.push_back(gpt2_characters(token));
  OrderedJson added = OrderedJson::array();
  for (const SpecialToken& token : parts.special) {
    names[static_cast<size_t>(token.id)] = token.text;
    OrderedJson entry;
    entry["id"] = token.id;
    entry["content"] = token.text;
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) entry[key] = false;
    entry["special"] = true;
    added.push_back(std::move(entry));
  }
  // An ordered object is a list of pairs that searches itself on every insertion: fill the list.
  OrderedJson::object_t vocab;
  OrderedJson::object_t::Container& entries = vocab;
  entries.reserve(names.size());
  for (size_t id = 0; id < names.size(); ++id) {
    if (!names[id].empty()) entries.emplace_back(names[id], id);
  }
  OrderedJson merges = OrderedJson::array();
  for (const BpeMerge& merge : parts.merges) {
    merges.push_back(names[static_cast<size_t>(merge.left)] + " " +
                     names[static_cast<size_t>(merge.right)]);
  }

  OrderedJson model;
  model["type"] = "BPE";
  model["dropout"] = nullptr;
  model["unk_token"] = nullptr;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
  model["fuse_unk"] = false;
  model["byte_fallback"] = false;
  model["ignore_merges"] = parts.whole_pieces_first;
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  OrderedJson json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = std::move(added);
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = byte_level();
  json["post_processor"] = byte_level();
  json["decoder"] = byte_level();
  json["model"] = std::move(model);
  return json;
}

}  // namespace tril
