#include "tril/interop/tokenizer_export.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "tril/base/error.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

constexpr int32_t kNormalToken = 1;
constexpr int32_t kControlToken = 3;
constexpr int32_t kUnusedToken = 5;

/// GPT-2's table: printable Latin-1 characters stand for themselves, all others for U+0100 and up.
std::array<char32_t, 256> make_byte_table() {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    table[b] = printable ? static_cast<char32_t>(b) : next++;
  }
  return table;
}

OrderedJson huggingface_frame(OrderedJson pre_tokenizer, OrderedJson decoder, OrderedJson model) {
  OrderedJson json;
  json["version"] = "1.0";
  json["truncation"] = nullptr;
  json["padding"] = nullptr;
  json["added_tokens"] = OrderedJson::array();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = std::move(pre_tokenizer);
  json["post_processor"] = nullptr;
  json["decoder"] = std::move(decoder);
  json["model"] = std::move(model);
  return json;
}

/// One token per character: words of one character.
OrderedJson huggingface_chars(const Tokenizer& tokenizer) {
  OrderedJson vocabulary = OrderedJson::object();
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocabulary[std::string(tokenizer.token_bytes(id))] = id;
  }
  return huggingface_frame(
      {{"type", "Split"},
       {"pattern", {{"Regex", "[\\s\\S]"}}},
       {"behavior", "Isolated"},
       {"invert", false}},
      {{"type", "Fuse"}},
      {{"type", "WordLevel"}, {"vocab", std::move(vocabulary)}, {"unk_token", "<unk>"}});
}

/// One token per byte: a byte-level BPE without merges.
OrderedJson huggingface_bytes(const Tokenizer& tokenizer) {
  OrderedJson vocabulary = OrderedJson::object();
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocabulary[byte_level_text(tokenizer.token_bytes(id))] = id;
  }
  const OrderedJson byte_level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", false}};
  return huggingface_frame(byte_level,
                           byte_level,
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"ignore_merges", false},
                            {"vocab", std::move(vocabulary)},
                            {"merges", OrderedJson::array()}});
}

/// Bytes as llama.cpp's "rwkv" vocabulary writes them: letters and digits as they are, all others
/// as \xHH.
std::string rwkv_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    text += is_plain
                ? std::string(1, c)
                : fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return text;
}

/// The merges of a Hugging Face BPE: "a b" or ["a", "b"].
std::vector<std::string> huggingface_merges(const OrderedJson& json) {
  std::vector<std::string> merges;
  for (const auto& merge : json.at("model").at("merges")) {
    merges.push_back(merge.is_array()
                         ? merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>()
                         : merge.get<std::string>());
  }
  return merges;
}

bool has_huggingface_form(const OrderedJson& json) {
  return json.contains("model") && json["model"].is_object() && json["model"].contains("merges");
}

[[noreturn]] void refuse_kind(const Tokenizer& tokenizer) {
  throw ConfigError(fmt::format("a tokenizer of kind \"{}\" has no form that other programs read",
                                tokenizer.kind()));
}

}  // namespace

std::string byte_level_text(std::string_view bytes) {
  static const std::array<char32_t, 256> kTable = make_byte_table();
  std::string text;
  for (const char c : bytes) append_utf8(text, kTable[static_cast<unsigned char>(c)]);
  return text;
}

std::vector<TokenizerFile> huggingface_tokenizer_files(const Tokenizer& tokenizer,
                                                       int64_t context_length) {
  std::vector<TokenizerFile> files;
  const OrderedJson own = tokenizer.to_json();
  if (has_huggingface_form(own)) {
    files.push_back({"tokenizer.json", dump_json(own) + "\n"});
  } else if (tokenizer.kind() == "char" || tokenizer.kind() == "byte") {
    const OrderedJson json =
        tokenizer.kind() == "char" ? huggingface_chars(tokenizer) : huggingface_bytes(tokenizer);
    files.push_back({"tokenizer.json", dump_json(json) + "\n"});
    files.push_back({"tril_tokenizer.json", dump_json(own) + "\n"});
  } else {
    refuse_kind(tokenizer);
  }
  OrderedJson config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["model_max_length"] = context_length;
  config["clean_up_tokenization_spaces"] = false;
  if (tokenizer.end_of_text() >= 0) {
    const std::string end(tokenizer.token_bytes(tokenizer.end_of_text()));
    for (const char* key : {"bos_token", "eos_token", "unk_token"}) config[key] = end;
  }
  files.push_back({"tokenizer_config.json", dump_json(config) + "\n"});
  return files;
}

GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer, int64_t vocab_size) {
  GgufVocabulary result;
  const OrderedJson own = tokenizer.to_json();
  const bool is_bpe = has_huggingface_form(own);
  if (!is_bpe && tokenizer.kind() != "char" && tokenizer.kind() != "byte") refuse_kind(tokenizer);
  result.model = is_bpe ? "gpt2" : "rwkv";
  if (is_bpe) {
    result.pre = "gpt-2";
    result.merges = huggingface_merges(own);
  }
  std::map<int64_t, std::string> special;
  for (const SpecialToken& token : tokenizer.special_tokens()) special[token.id] = token.text;
  for (int64_t id = 0; id < vocab_size; ++id) {
    if (id >= tokenizer.vocab_size()) {
      result.tokens.push_back(fmt::format("[PAD{}]", id));
      result.types.push_back(kUnusedToken);
    } else if (special.contains(id)) {
      result.tokens.push_back(special[id]);
      result.types.push_back(kControlToken);
      if (id == tokenizer.end_of_text()) result.end_of_text = id;
    } else {
      const std::string_view bytes = tokenizer.token_bytes(id);
      // A vocabulary of one running text has no end-of-text; llama.cpp would take id 11, a comma.
      if (is_bpe && tokenizer.end_of_text() < 0 && bytes == "\xff") result.end_of_text = id;
      result.tokens.push_back(is_bpe ? byte_level_text(bytes) : rwkv_text(bytes));
      result.types.push_back(kNormalToken);
    }
  }
  return result;
}

}  // namespace tril
