// tril tokenizer: text to ids and back, a look at the pieces, a vocabulary of one's own.

#include "tokenizer_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

#include "commands.h"
#include "input_stream.h"
#include "output.h"
#include "token_view.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/base/utf8.h"
#include "tril/tokenizer/bpe_tokenizer.h"
#include "tril/tokenizer/learned_tokenizer.h"
#include "tril/tokenizer/tokenizer.h"

namespace tril::cli {

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerArguments& args) {
  if (is_learned(args.tokenizer)) {
    throw ConfigError(
        fmt::format("--tokenizer {}: its vocabulary belongs to a text; give the tokenizer.json of "
                    "a run or of tril prepare",
                    args.tokenizer));
  }
  return make_tokenizer(args.tokenizer, args.vocab);
}

namespace {

/// Reads a text and hands on the ids of one part after another. `take(part, ids)`.
template <typename Take>
void encode_stream(const TokenizerArguments& args, const Tokenizer& tokenizer, Take&& take) {
  const SpecialText special = args.special_text();
  InputStream input(args.input);
  std::string text;
  std::vector<int32_t> ids;
  int64_t text_begin = 0;
  size_t look_at = 0;  // a text without a place to cut is looked at again when it has doubled
  for (bool at_end = false; !at_end;) {
    at_end = !input.read(text);
    if (!at_end && text.size() < look_at) continue;
    const size_t n_ready = tokenizer.safe_prefix(text, at_end, special);
    look_at = 2 * (text.size() - n_ready);
    if (!at_end && n_ready == 0) {
      if (text.size() <= kMaxPieceBytes + InputStream::kBlockBytes) continue;
      look_at = 0;
    }
    const std::string_view part(text.data(), n_ready > 0 ? n_ready : text.size());
    ids.clear();
    try {
      tokenizer.encode_to(part, ids, special);
    } catch (const EncodeError& error) {
      throw error.located(text_begin + error.offset(), fmt::format(" of '{}'", input.name()));
    }
    take(part, ids);
    text_begin += static_cast<int64_t>(part.size());
    text.erase(0, part.size());
  }
}

void append_id(std::string& out, int64_t id) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id).ptr;
  out.append(digits.data(), end);
}

/// A token's bytes for JSON, whole or not: what is no character, and the backslash, is escaped.
std::string escape_bytes(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::optional<CodePoint> point = decode_utf8(bytes);
    const size_t n_bytes = point ? point->n_bytes : 1;
    if (!point) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes[0]));
    } else if (bytes[0] == '\\') {
      out += "\\\\";
    } else {
      out += bytes.substr(0, n_bytes);
    }
    bytes.remove_prefix(n_bytes);
  }
  return out;
}

int encode_pieces(const TokenizerArguments& args, const Tokenizer& tokenizer) {
  OrderedJson ids = OrderedJson::array();
  OrderedJson pieces = OrderedJson::array();
  encode_stream(args, tokenizer, [&](std::string_view, const std::vector<int32_t>& part) {
    for (const int32_t id : part) {
      ids.push_back(id);
      pieces.push_back(escape_bytes(tokenizer.token_bytes(id)));
    }
  });
  if (args.json) {
    OrderedJson json;
    json["ids"] = std::move(ids);
    json["pieces"] = std::move(pieces);
    print_out("{}\n", dump_json(json, -1));
    return 0;
  }
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) {
    out += fmt::format(
        "{:>8}  \"{}\"\n",
        ids[i].get<int64_t>(),
        escape_for_message(tokenizer.token_bytes(ids[i].get<int64_t>()), /*max_bytes=*/4096));
  }
  write_out(out);
  return 0;
}

int encode(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args);
  if (args.pieces) return encode_pieces(args, *tokenizer);
  // Nothing is written before an error that could come: only a character vocabulary lacks
  // characters.
  const bool can_fail = tokenizer->kind() == "char";
  std::string out = args.json ? "{\"ids\":[" : "";
  bool is_first = true;
  encode_stream(args, *tokenizer, [&](std::string_view, const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      if (!is_first) out += args.json ? ',' : ' ';
      is_first = false;
      append_id(out, id);
    }
    if (can_fail) return;
    write_out(out);
    out.clear();
  });
  out += args.json ? "]}\n" : "\n";
  write_out(out);
  return 0;
}

/// Ids separated by white space or commas.
std::vector<int64_t> parse_plain_ids(std::string_view rest, const std::string& origin) {
  constexpr std::string_view kSeparators = " \t\r\n,";
  std::vector<int64_t> ids;
  while (true) {
    const auto begin = rest.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    rest.remove_prefix(begin);
    const std::string_view word = rest.substr(0, rest.find_first_of(kSeparators));
    int64_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw DataError(fmt::format("{}: '{}' is not an id", origin, escape_for_message(word, 40)));
    }
    ids.push_back(id);
    rest.remove_prefix(word.size());
  }
}

/// The same, or the {"ids": [...]} that encode --json writes.
std::vector<int64_t> parse_ids(const std::string& text, const std::string& origin) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '{' && text[first] != '[')) {
    return parse_plain_ids(text, origin);
  }
  Json json = parse_json(text, origin, FileRole::kData);
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

int decode(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args);
  std::string input;
  InputStream stream(args.input);
  while (stream.read(input)) {
  }
  const std::string text = tokenizer->decode(parse_ids(input, args.input));
  if (args.json) {
    OrderedJson json;
    json["text"] = text;
    print_out("{}\n", dump_json(json, -1));
  } else {
    write_out(text);  // exactly the bytes, no newline added
  }
  return 0;
}

int view(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args);
  const bool is_page = !args.html.empty();
  const bool has_colours =
      args.color == "always" ||
      (args.color == "auto" && isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr);
  const ViewStyle style = has_colours ? ViewStyle::kColours : ViewStyle::kBars;
  std::string out = is_page ? html_head(args.input == "-" ? "stdin" : args.input) : "";
  int64_t n_tokens = 0;
  int64_t n_bytes = 0;
  encode_stream(args, *tokenizer, [&](std::string_view part, const std::vector<int32_t>& ids) {
    for (const int32_t id : ids) {
      const std::string_view bytes = tokenizer->token_bytes(id);
      out += is_page ? html_piece(bytes, id, n_tokens) : view_piece(bytes, n_tokens, style);
      ++n_tokens;
    }
    n_bytes += static_cast<int64_t>(part.size());
    if (is_page) return;
    write_out(out);
    out.clear();
  });
  if (is_page) {
    write_file_atomically(args.html, out + html_tail(n_tokens, n_bytes));
  } else {
    write_out("\n");
  }
  return 0;
}

int info(const TokenizerArguments& args) {
  const auto tokenizer = open_tokenizer(args);
  OrderedJson json;
  json["kind"] = tokenizer->kind();
  json["vocab_size"] = tokenizer->vocab_size();
  json["fingerprint"] = tokenizer->fingerprint();
  json["start_token"] = tokenizer->start_token();
  json["end_of_text"] = tokenizer->end_of_text();
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(tokenizer.get())) {
    json["merges"] = bpe->vocabulary().merges.size();
    size_t longest = 0;
    for (const std::string& token : bpe->vocabulary().tokens) {
      longest = std::max(longest, token.size());
    }
    json["longest_token_bytes"] = longest;
    OrderedJson special = OrderedJson::object();
    for (const SpecialToken& token : tokenizer->special_tokens()) special[token.text] = token.id;
    json["special_tokens"] = std::move(special);
  }
  if (args.json) {
    print_out("{}\n", dump_json(json));
    return 0;
  }
  for (const auto& [key, value] : json.items()) {
    print_out(
        "{:<20} {}\n", key, value.is_string() ? value.get<std::string>() : dump_json(value, -1));
  }
  return 0;
}

}  // namespace

CommandEntry add_tokenizer_command(CLI::App& app, CommonOptions& common) {
  auto* command = app.add_subcommand("tokenizer", "Turn text into ids and back");
  command->require_subcommand(1);
  auto args = std::make_shared<TokenizerArguments>();
  const auto add = [&](const char* name, const char* help, bool has_input) {
    auto* sub = command->add_subcommand(name, help);
    sub->add_option(
           "--tokenizer",
           args->tokenizer,
           "byte, gpt2, a tokenizer.json (tril's or Hugging Face's), a .tiktoken file, or a "
           "folder that holds one")
        ->required();
    sub->add_option("--vocab", args->vocab, "With gpt2: the folder of encoder.json and vocab.bpe");
    if (has_input) sub->add_option("FILE", args->input, "Input; - is stdin")->capture_default_str();
    return sub;
  };
  const auto add_json = [&](CLI::App* sub) {
    sub->add_flag("--json", args->json, "One JSON object on stdout");
  };
  const auto add_special = [&](CLI::App* sub) {
    sub->add_flag("--allow-special",
                  args->allow_special,
                  "Special tokens in the text, such as <|endoftext|>, become their ids");
  };
  auto* encode_command = add("encode", "Text to ids", true);
  add_json(encode_command);
  add_special(encode_command);
  encode_command->add_flag("--pieces", args->pieces, "With the text of each token");
  auto* decode_command = add("decode", "Ids to text", true);
  add_json(decode_command);
  add_json(add("info", "Kind, size, fingerprint", false));
  auto* view_command = add("view", "Text with its tokens in colours", true);
  add_special(view_command);
  view_command->add_option("--html", args->html, "Write a page instead");
  view_command->add_option("--color", args->color, "auto, always or never (bars)")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  const CommandEntry train = add_tokenizer_train_command(*command, common);
  const CommandEntry bench = add_tokenizer_bench_command(*command, common);
  command->footer(R"(Examples:
  echo -n hello | tril tokenizer encode --tokenizer byte -
  tril tokenizer encode --tokenizer runs/quickstart/tokenizer.json story.txt --json
  tril tokenizer train corpus/*.txt --vocab-size 4096 --out tokenizer.json
  tril tokenizer view --tokenizer gpt2 story.txt --html story.html)");
  return {command, [=] {
            if (encode_command->parsed()) return encode(*args);
            if (decode_command->parsed()) return decode(*args);
            if (view_command->parsed()) return view(*args);
            if (train.app->parsed()) return train.run();
            if (bench.app->parsed()) return bench.run();
            return info(*args);
          }};
}

}  // namespace tril::cli
