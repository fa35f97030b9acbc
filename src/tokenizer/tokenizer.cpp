#include "tril/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "special_finder.h"
#include "tril/base/fingerprint.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {

EncodeError::EncodeError(std::string subject,
                         int64_t offset,
                         std::string problem,
                         std::string place)
    : DataError(fmt::format("{} at offset {}{} {}", subject, offset, place, problem)),
      subject_(std::move(subject)),
      offset_(offset),
      problem_(std::move(problem)) {}

EncodeError EncodeError::located(int64_t offset, std::string place) const {
  return EncodeError(subject_, offset, problem_, std::move(place));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<int32_t> ids;
  encode_to(text, ids, special);
  return ids;
}

void Tokenizer::encode_to(std::string_view text,
                          std::vector<int32_t>& out,
                          SpecialText special) const {
  const auto tokens = special_tokens();
  if (special == SpecialText::kIsText || tokens.empty()) return encode_to(text, out);
  const size_t out_begin = out.size();
  size_t begin = 0;
  SpecialFinder finder(text, tokens);
  try {
    while (true) {
      const SpecialFinder::Found found = finder.find(begin);
      encode_to(text.substr(begin, found.begin - begin), out);
      if (found.token == nullptr) return;
      out.push_back(static_cast<int32_t>(found.token->id));
      begin = found.end();
    }
  } catch (const EncodeError& error) {
    out.resize(out_begin);
    throw error.located(error.offset() + static_cast<int64_t>(begin), "");
  } catch (...) {
    out.resize(out_begin);
    throw;
  }
}

size_t Tokenizer::safe_prefix(std::string_view text, bool at_end, SpecialText special) const {
  const auto tokens = special_tokens();
  if (special == SpecialText::kIsText || tokens.empty() || at_end) return safe_prefix(text, at_end);
  return special_safe_prefix(
      text, tokens, [this](std::string_view part) { return safe_prefix(part, /*at_end=*/false); });
}

void Tokenizer::decode_to(std::span<const int32_t> ids, std::string& out) const {
  const size_t out_begin = out.size();
  try {
    for (const int32_t id : ids) out += token_bytes(id);
  } catch (...) {
    out.resize(out_begin);
    throw;
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  decode_to(ids, text);
  return text;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::string text;
  std::vector<int32_t> part;
  constexpr size_t kPart = 4096;
  for (size_t begin = 0; begin < ids.size(); begin += kPart) {
    part.clear();
    for (const int64_t id : ids.subspan(begin, std::min(kPart, ids.size() - begin))) {
      token_bytes(id);  // refuses what is no id at all
      part.push_back(static_cast<int32_t>(id));
    }
    decode_to(part, text);
  }
  return text;
}

std::string Tokenizer::fingerprint() const {
  return tril::fingerprint(dump_json(to_json(), -1));
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const Json& json, const std::string& origin) {
  if (!json.is_object()) {
    throw DataError(fmt::format(
        "'{}' is not a tokenizer: expected a JSON object, found {}", origin, json.type_name()));
  }
  const auto type = json.find("type");
  if (type == json.end() && json.find("model") != json.end()) {
    return std::make_unique<BpeTokenizer>(bpe_from_huggingface_json(json, origin),
                                          fmt::format("'{}'", origin));
  }
  if (type == json.end() || !type->is_string()) {
    throw DataError(fmt::format(
        "'{}' is not a tokenizer: it has no \"type\" (\"byte\" or \"char\"), as tril's have, and "
        "no "
        "\"model\", as Hugging Face's; `tril prepare` and `tril tokenizer train` write such files",
        origin));
  }
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "byte") return byte_tokenizer_from_json(json, origin);
  if (name == "char") {
    return std::make_unique<CharTokenizer>(CharTokenizer::from_json(json, origin));
  }
  throw DataError(
      fmt::format("'{}' has the unknown tokenizer type \"{}\": expected \"byte\" or "
                  "\"char\"; a newer tril may be needed",
                  origin,
                  escape_for_message(name)));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  if (path.extension() == ".tiktoken") {
    return std::make_unique<BpeTokenizer>(bpe_from_tiktoken_file(path),
                                          fmt::format("'{}'", path.string()));
  }
  return tokenizer_from_json(read_json_file(path, FileRole::kData), path.string());
}

namespace {

/// A folder with tokenizer.json, or with one of the pairs of files that came before it.
std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& [encoder, merges] :
       {std::pair("vocab.json", "merges.txt"), std::pair("encoder.json", "vocab.bpe")}) {
    if (std::filesystem::exists(folder / "tokenizer.json", ignored)) break;
    if (!std::filesystem::exists(folder / merges, ignored)) continue;
    return std::make_unique<BpeTokenizer>(bpe_from_gpt2_files(folder / encoder, folder / merges),
                                          fmt::format("the vocabulary in '{}'", folder.string()));
  }
  return load_tokenizer(folder / "tokenizer.json");
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path,
                                          const std::filesystem::path& vocab_folder) {
  if (name_or_path == "byte") return make_byte_tokenizer();
  if (name_or_path == "gpt2") return load_gpt2_tokenizer(vocab_folder);
  if (is_learned(name_or_path)) {
    throw DataError(
        fmt::format("the tokenizer \"{}\" takes its vocabulary from a text: give the path of the "
                    "tokenizer.json that was made with it",
                    name_or_path));
  }
  const std::filesystem::path path(name_or_path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return load_tokenizer_folder(path);
  if (!std::filesystem::exists(path, error)) {
    throw DataError(
        fmt::format("no tokenizer '{}': expected \"byte\", \"char\", \"bpe:N\", \"gpt2\", or the "
                    "path of a tokenizer.json",
                    name_or_path));
  }
  return load_tokenizer(path);
}

}  // namespace tril
