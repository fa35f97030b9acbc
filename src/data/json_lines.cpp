// Documents from JSON lines: one object a line, one field of it the text.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "document_reader.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

/// Takes one text field of an object and passes over everything else, without building it.
class FieldFinder final : public nlohmann::json_sax<Json> {
 public:
  explicit FieldFinder(const std::string& field) : field_(field) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(int64_t) override { return other("a number"); }
  bool number_unsigned(uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool binary(Json::binary_t&) override { return other("binary"); }
  bool string(std::string& value) override {
    if (!is_wanted()) return other("a string");
    text = std::move(value);
    wanted_ = false;
    return true;
  }
  bool start_object(size_t) override { return nest("an object"); }
  bool start_array(size_t) override { return nest("a list"); }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    wanted_ = name == field_;
    if (wanted_ && text) {
      problem = fmt::format("the key \"{}\" stands there twice", escape_for_message(field_));
      return false;
    }
    if (names.size() < 200) names += (names.empty() ? "" : ", ") + escape_for_message(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 8: syntax error ...": ours
    // says where the line is.
    const std::string what = error.what();
    const size_t colon = what.find(": ");
    problem = fmt::format(
        "no valid JSON at byte {} of the line: {}",
        position,
        escape_for_message(colon == std::string::npos ? what : what.substr(colon + 2), 200));
    return false;
  }

  std::optional<std::string> text;
  std::string names;
  std::string problem;

 private:
  bool is_wanted() const { return depth_ == 1 && wanted_; }
  bool other(const char* kind) {
    if (depth_ == 0) {
      problem = fmt::format("expected an object, found {}", kind);
      return false;
    }
    if (!is_wanted()) return true;
    problem = fmt::format("\"{}\" must be a string, found {}", escape_for_message(field_), kind);
    return false;
  }
  bool nest(const char* kind) {
    const bool is_document = depth_ == 0 && std::string_view(kind) == "an object";
    if (!is_document && !other(kind)) return false;
    ++depth_;
    return true;
  }

  const std::string& field_;
  int64_t depth_ = 0;
  bool wanted_ = false;
};

/// Appends a document, with its line ends as asked.
void append_text(const std::string& document,
                 Newlines newlines,
                 std::string& text,
                 CarriageReturns& found) {
  if (document.find('\r') == std::string::npos) {
    text += document;
    return;
  }
  for (size_t i = 0; i < document.size(); ++i) {
    if (document[i] != '\r') {
      text += document[i];
      continue;
    }
    const bool pair = i + 1 < document.size() && document[i + 1] == '\n';
    ++(pair ? found.crlf : found.lone);
    if (newlines == Newlines::kKeep) {
      text += '\r';
    } else if (!pair) {
      text += '\n';
    }
  }
}

}  // namespace

void parse_json_lines(const TextBlock& block,
                      const std::filesystem::path& file,
                      const DocumentRules& rules,
                      std::string& text,
                      std::vector<TextPiece>& pieces,
                      CarriageReturns& carriage_returns) {
  int64_t number = block.first_line;
  std::string_view rest = block.text;
  for (; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;

    FieldFinder finder(rules.field);
    Json::sax_parse(line, &finder);
    if (finder.problem.empty() && !finder.text) {
      finder.problem =
          fmt::format("it has no key \"{}\", but: {}; name the text's key with --field",
                      escape_for_message(rules.field),
                      finder.names.empty() ? "none" : finder.names);
    }
    if (!finder.problem.empty()) {
      throw DataError(fmt::format(
          "line {} of '{}': {}", number, escape_for_message(file.string(), 4096), finder.problem));
    }
    if (finder.text->empty()) continue;
    const size_t begin = text.size();
    append_text(*finder.text, rules.newlines, text, carriage_returns);
    text += rules.end_mark;
    pieces.push_back({.begin = begin,
                      .end = text.size(),
                      .starts_document = true,
                      .ends_document = true,
                      .file = block.file,
                      .file_offset = number});
  }
}

}  // namespace tril
