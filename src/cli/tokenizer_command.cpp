// tril tokenizer: text to ids and back.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>
#include <memory>

#include "commands.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/tokenizer/byte_tokenizer.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril::cli {
namespace {

struct TokenizerArguments {
  std::string tokenizer;
  std::string input = "-";
  bool json = false;
};

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "byte") return make_byte_tokenizer();
  if (name == "char") {
    throw ConfigError(
        "--tokenizer char: a character vocabulary belongs to a text; give the "
        "tokenizer.json of a run or of tril prepare");
  }
  return load_tokenizer(name);
}

std::string read_input(const std::string& input) {
  if (input != "-") return read_file(input, FileRole::kData);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

int encode(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args.tokenizer);
  const auto ids = tokenizer->encode(read_input(args.input));
  if (args.json) {
    OrderedJson json;
    json["ids"] = ids;
    print_out("{}\n", dump_json(json, -1));
  } else {
    print_out("{}\n", fmt::join(ids, " "));
  }
  return 0;
}

/// Ids separated by white space or commas, or the {"ids": [...]} that encode --json writes.
std::vector<int64_t> parse_ids(const std::string& text, const std::string& origin) {
  std::string_view rest = text;
  Json json;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
    json = parse_json(text, origin, FileRole::kData);
    if (json.is_object()) json = json.value("ids", Json());
    if (!json.is_array()) throw DataError(fmt::format("{}: expected an array of ids", origin));
    std::vector<int64_t> ids;
    for (const auto& id : json) {
      if (!id.is_number_integer())
        throw DataError(fmt::format("{}: {} is not an id", origin, id.dump()));
      ids.push_back(id.get<int64_t>());
    }
    return ids;
  }
  std::vector<int64_t> ids;
  while (true) {
    const auto begin = rest.find_first_not_of(" \t\r\n,");
    if (begin == std::string_view::npos) return ids;
    rest.remove_prefix(begin);
    const std::string word(rest.substr(0, rest.find_first_of(" \t\r\n,")));
    size_t used = 0;
    try {
      ids.push_back(std::stoll(word, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size()) {
      throw DataError(fmt::format("{}: '{}' is not an id", origin, word.substr(0, 40)));
    }
    rest.remove_prefix(word.size());
  }
}

int decode(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args.tokenizer);
  const auto ids = parse_ids(read_input(args.input), args.input);
  const std::string text = tokenizer->decode(ids);
  if (args.json) {
    OrderedJson json;
    json["text"] = text;
    print_out("{}\n", dump_json(json, -1));
  } else {
    write_out(text);  // exactly the bytes, no newline added
  }
  return 0;
}

int info(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args.tokenizer);
  OrderedJson json;
  json["kind"] = tokenizer->kind();
  json["vocab_size"] = tokenizer->vocab_size();
  json["fingerprint"] = tokenizer->fingerprint();
  json["start_token"] = tokenizer->start_token();
  json["end_of_text"] = tokenizer->end_of_text();
  if (args.json) {
    print_out("{}\n", dump_json(json));
    return 0;
  }
  for (const auto& [key, value] : json.items()) {
    print_out("{:<14} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return 0;
}

}  // namespace

CommandEntry add_tokenizer_command(CLI::App& app, CommonOptions&) {
  auto* command = app.add_subcommand("tokenizer", "Turn text into ids and back");
  command->require_subcommand(1);
  auto args = std::make_shared<TokenizerArguments>();
  const auto add = [&](const char* name, const char* help, bool has_input) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option("--tokenizer", args->tokenizer, "byte, or a tokenizer.json")->required();
    if (has_input) sub->add_option("FILE", args->input, "Input; - is stdin")->capture_default_str();
    sub->add_flag("--json", args->json, "One JSON object on stdout");
    return sub;
  };
  auto* encode_command = add("encode", "Text to ids", true);
  auto* decode_command = add("decode", "Ids to text", true);
  add("info", "Kind, size, fingerprint", false);
  command->footer(R"(Examples:
  echo -n hello | tril tokenizer encode --tokenizer byte -
  tril tokenizer encode --tokenizer runs/quickstart/tokenizer.json story.txt --json)");
  return {command, [=] {
            if (encode_command->parsed()) return encode(*args);
            if (decode_command->parsed()) return decode(*args);
            return info(*args);
          }};
}

}  // namespace tril::cli
