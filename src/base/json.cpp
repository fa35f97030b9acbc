#include "tril/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "tril/base/utf8.h"

namespace tril {

namespace {

constexpr size_t kMaxDepth = 64;

/// Reads characters and tells how many were taken, which nlohmann's SAX events do not.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  size_t* n_read = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*n_read;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

struct Failure {
  size_t offset = 0;  // of the byte at fault
  std::string reason;
};

/// Offset of the opening quote of the string whose closing quote ends at `end`.
size_t start_of_string(std::string_view text, size_t end) {
  size_t i = end - 1;
  while (i > 0) {
    --i;
    if (text[i] != '"') continue;
    size_t n_backslashes = 0;
    while (n_backslashes < i && text[i - 1 - n_backslashes] == '\\') ++n_backslashes;
    if (n_backslashes % 2 == 0) return i;
  }
  return i;
}

/// What a person most likely did, when the byte at fault tells.
std::string hint(std::string_view text, size_t offset) {
  if (offset >= text.size()) return "; is a closing bracket or quote missing?";
  const char found = text[offset];
  const size_t before = text.substr(0, offset).find_last_not_of(" \t\r\n");
  if ((found == '}' || found == ']') && before != std::string_view::npos && text[before] == ',') {
    return "; remove the comma before it: JSON has no trailing commas";
  }
  // The lexer reads on to see which kind of comment it is, so the fault may be one byte later.
  if (found == '#' || found == '/' || (offset > 0 && before == offset - 1 && text[before] == '/')) {
    return "; JSON has no comments: remove it";
  }
  if (found == '\'') return "; strings stand in double quotes";
  return "";
}

/// The core of nlohmann's text, without its prefixes and its echo of the input:
/// "[json.exception.…] parse error at line 1, column 9: syntax error while parsing X - core".
std::string plain_reason(std::string what) {
  constexpr size_t kMaxBytes = 200;  // an overflowing number is echoed whole
  if (const size_t end = what.find("] "); what.starts_with('[') && end != std::string::npos) {
    what.erase(0, end + 2);
  }
  if (const size_t end = what.find(" - "); what.starts_with("parse error") && end != what.npos) {
    what.erase(0, end + 3);
  }
  if (const size_t echo = what.find("; last read: '"); echo != std::string::npos) {
    const size_t echo_end = what.rfind("'; expected ");
    // The echo may hold these words itself; what nlohmann expects is plain ASCII.
    const bool has_expected = echo_end != std::string::npos && echo_end > echo &&
                              std::all_of(what.begin() + static_cast<std::ptrdiff_t>(echo_end),
                                          what.end(),
                                          [](char c) { return c >= ' ' && c <= '~'; });
    what.erase(echo, has_expected ? echo_end + 1 - echo : std::string::npos);
  }
  return what.size() <= kMaxBytes ? what : what.substr(0, kMaxBytes) + "...";
}

/// Builds the value while refusing what nlohmann's own builder lets pass: repeated keys (it keeps
/// the last) and any depth.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(std::string_view text, const size_t& n_read) : text_(text), n_read_(n_read) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // never in text

  bool start_object(size_t /*n*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t /*n*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const auto [place, is_new] =
        stack_.back()->get_ref<Json::object_t&>().try_emplace(name, nullptr);
    if (!is_new) {
      return fail(start_of_string(text_, n_read_),
                  fmt::format("duplicate key \"{}\", expected each key once in an object",
                              escape_for_message(name)));
    }
    member_ = &place->second;
    return true;
  }

  bool parse_error(size_t position,
                   const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    const size_t offset = std::min(position == 0 ? 0 : position - 1, text_.size());
    return fail(offset, "not valid JSON: " + plain_reason(error.what()) + hint(text_, offset));
  }

  const std::optional<Failure>& failure() const { return failure_; }
  Json& result() { return root_; }

 private:
  template <typename Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }

  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool open(Json empty) {
    if (stack_.size() == kMaxDepth) {
      return fail(n_read_ - 1,
                  fmt::format("nested too deep, expected at most {} levels", kMaxDepth));
    }
    stack_.push_back(place(std::move(empty)));
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  bool fail(size_t offset, std::string reason) {
    failure_ = Failure{offset, std::move(reason)};
    return false;
  }

  std::string_view text_;
  const size_t& n_read_;
  Json root_;
  // Open containers. A parent does not grow while its child is open, so the pointers stay valid.
  std::vector<Json*> stack_;
  Json* member_ = nullptr;  // where the value of the latest key goes
  std::optional<Failure> failure_;
};

[[noreturn]] void throw_failure(std::string_view text,
                                const std::string& origin,
                                FileRole role,
                                const Failure& failure) {
  const std::string_view before = text.substr(0, failure.offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 = 0
  // Columns count characters, as editors do: bytes that do not continue one.
  const std::string_view head = before.substr(line_start);
  const auto column =
      1 + std::count_if(head.begin(), head.end(), [](char c) { return (c & 0xC0) != 0x80; });
  throw_file_error(role, fmt::format("{}:{}:{}: {}", origin, line, column, failure.reason));
}

template <typename AnyJson>
std::string dump(const AnyJson& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, AnyJson::error_handler_t::replace);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin, FileRole role) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (const auto bad = find_invalid_utf8(text)) {
    throw_failure(text,
                  origin,
                  role,
                  {*bad,
                   fmt::format("byte 0x{:02x} is not valid UTF-8, expected JSON text in UTF-8",
                               static_cast<uint8_t>(text[*bad]))});
  }
  // nlohmann takes a zero byte for the end and would ignore what follows.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw_failure(text, origin, role, {zero, "not valid JSON: a zero byte"});
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw_file_error(role, fmt::format("{}:1:1: empty, expected a JSON value", origin));
  }
  size_t n_read = 0;
  StrictBuilder builder(text, n_read);
  const CountingIterator begin{text.data(), &n_read};
  const CountingIterator end{text.data() + text.size(), &n_read};
  const bool ok = Json::sax_parse(begin, end, &builder);
  if (builder.failure()) throw_failure(text, origin, role, *builder.failure());
  if (!ok) throw_file_error(role, fmt::format("{}: not valid JSON", origin));
  return std::move(builder.result());
}

Json read_json_file(const std::filesystem::path& path, FileRole role, uint64_t max_bytes) {
  return parse_json(
      read_file(path, role, max_bytes), escape_for_message(path.string(), 4096), role);
}

std::string dump_json(const OrderedJson& value, int indent) {
  return dump(value, indent);
}

std::string dump_json(const Json& value, int indent) {
  return dump(value, indent);
}

}  // namespace tril
