#include "tril/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "tril/base/fingerprint.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/char_tokenizer.h"

namespace tril {
namespace {

template <typename Id>
std::string decode_ids(const Tokenizer& tokenizer, std::span<const Id> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const Id id : ids) text += tokenizer.token_bytes(id);
  return text;
}

}  // namespace

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

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_to(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  return decode_ids(*this, ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  return decode_ids(*this, ids);
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
  if (type == json.end() || !type->is_string()) {
    throw DataError(fmt::format(
        "'{}' is not a tokenizer of tril: it has no \"type\" (expected \"byte\" or \"char\"); "
        "`tril prepare` writes such files",
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
  return tokenizer_from_json(read_json_file(path, FileRole::kData), path.string());
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "byte") return make_byte_tokenizer();
  if (name_or_path == "char") {
    throw DataError(
        "the tokenizer \"char\" takes its vocabulary from a text: give the path of the "
        "tokenizer.json that was made with it");
  }
  const std::filesystem::path path(name_or_path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return load_tokenizer(path / "tokenizer.json");
  if (!std::filesystem::exists(path, error)) {
    throw DataError(fmt::format(
        "no tokenizer '{}': expected \"byte\", \"char\", or the path of a tokenizer.json",
        name_or_path));
  }
  return load_tokenizer(path);
}

}  // namespace tril
