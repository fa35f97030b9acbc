#include "tril/data/nanogpt_meta.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

struct Dictionary;
struct Mark {};
using DictionaryPtr = std::shared_ptr<Dictionary>;
using TextPtr = std::shared_ptr<const std::string>;  // a pickle may name one a million times
using Value = std::variant<Mark, int64_t, TextPtr, DictionaryPtr>;

// A meta.pkl has three; without a limit, a pickle could nest them until the stack ends.
constexpr size_t kMaxDictionaries = 16;

/// Pairs in the order they were put in.
struct Dictionary {
  std::vector<std::pair<Value, Value>> items;
};

/// The few instructions of a pickle that make plain data (Python's pickletools lists them all).
class PlainPickle {
 public:
  PlainPickle(std::string_view bytes, std::string origin)
      : bytes_(bytes), origin_(std::move(origin)) {}
  /// A damaged pickle can put two dictionaries into each other: emptied, they let go.
  ~PlainPickle() {
    for (const DictionaryPtr& dictionary : dictionaries_) dictionary->items.clear();
  }
  PlainPickle(const PlainPickle&) = delete;
  PlainPickle& operator=(const PlainPickle&) = delete;

  DictionaryPtr read() {
    while (true) {
      const auto instruction = static_cast<uint8_t>(take(1)[0]);
      if (instruction == '.') break;  // STOP
      execute(instruction);
    }
    auto* dictionary = stack_.size() == 1 ? std::get_if<DictionaryPtr>(&stack_[0]) : nullptr;
    if (dictionary == nullptr) refuse("it is no dictionary");
    return *dictionary;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(
        fmt::format("'{}' is not a meta.pkl of nanoGPT: {}; `tril prepare INPUT.txt --tokenizer "
                    "char` makes the "
                    "same ids from the text",
                    origin_,
                    why));
  }

 private:
  void execute(uint8_t instruction) {
    switch (instruction) {
      case 0x80:  // PROTO
        take(1);
        break;
      case 0x95:  // FRAME
        take(8);
        break;
      case '}':  // EMPTY_DICT
        if (dictionaries_.size() == kMaxDictionaries) refuse("it has too many dictionaries");
        stack_.emplace_back(dictionaries_.emplace_back(std::make_shared<Dictionary>()));
        break;
      case '(':  // MARK
        stack_.emplace_back(Mark{});
        break;
      case 'K':  // BININT1
        stack_.emplace_back(static_cast<int64_t>(number(1)));
        break;
      case 'M':  // BININT2
        stack_.emplace_back(static_cast<int64_t>(number(2)));
        break;
      case 'J':  // BININT
        stack_.emplace_back(
            static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(number(4)))));
        break;
      case 0x8c:  // SHORT_BINUNICODE
        stack_.emplace_back(std::make_shared<const std::string>(take(number(1))));
        break;
      case 'X':  // BINUNICODE
        stack_.emplace_back(std::make_shared<const std::string>(take(number(4))));
        break;
      case 0x94:  // MEMOIZE
        memo_[memo_.size()] = top();
        break;
      case 'q':  // BINPUT
        memo_[number(1)] = top();
        break;
      case 'r':  // LONG_BINPUT
        memo_[number(4)] = top();
        break;
      case 'h':  // BINGET
        get(number(1));
        break;
      case 'j':  // LONG_BINGET
        get(number(4));
        break;
      case 's':  // SETITEM
        if (stack_.size() < 3) refuse("it is damaged");
        set_items(stack_.size() - 2, stack_.size() - 3);
        break;
      case 'u': {  // SETITEMS
        size_t mark = stack_.size();
        while (mark > 0 && !std::holds_alternative<Mark>(stack_[mark - 1])) --mark;
        if (mark < 2) refuse("it is damaged");  // nothing below the mark
        set_items(mark, mark - 2);
        break;
      }
      default:
        refuse(
            fmt::format("it holds more than numbers, texts and dictionaries (instruction 0x{:02X} "
                        "at byte {}), and tril runs no pickles",
                        instruction,
                        at_ - 1));
    }
  }

  std::string_view take(uint64_t n) {
    if (n > bytes_.size() - at_) refuse("it is cut short");
    const std::string_view taken = bytes_.substr(at_, static_cast<size_t>(n));
    at_ += static_cast<size_t>(n);
    return taken;
  }
  uint64_t number(size_t n_bytes) {
    const std::string_view bytes = take(n_bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < n_bytes; ++i) {
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    }
    return value;
  }
  const Value& top() const {
    if (stack_.empty()) refuse("it is damaged");
    return stack_.back();
  }
  void get(uint64_t i) {
    const auto found = memo_.find(i);
    if (found == memo_.end()) refuse("it is damaged");
    stack_.push_back(found->second);
  }
  /// Puts the pairs from `begin` to the top into the dictionary at `below`, which is the new top.
  void set_items(size_t begin, size_t below) {
    const auto* found = std::get_if<DictionaryPtr>(&stack_[below]);
    if (found == nullptr || (stack_.size() - begin) % 2 != 0) refuse("it is damaged");
    const DictionaryPtr dictionary = *found;
    for (size_t i = begin; i < stack_.size(); i += 2) {
      // Only what is finished goes in, so nothing can end up inside itself.
      for (const Value& value : {stack_[i], stack_[i + 1]}) {
        const auto* inner = std::get_if<DictionaryPtr>(&value);
        if (std::holds_alternative<Mark>(value) || (inner != nullptr && *inner == dictionary)) {
          refuse("it is damaged");
        }
      }
      dictionary->items.emplace_back(std::move(stack_[i]), std::move(stack_[i + 1]));
    }
    stack_.resize(below + 1);
  }

  std::string_view bytes_;
  std::string origin_;
  size_t at_ = 0;
  std::vector<DictionaryPtr> dictionaries_;
  std::vector<Value> stack_;
  std::map<uint64_t, Value> memo_;
};

}  // namespace

CharTokenizer parse_nanogpt_meta(std::string_view bytes, const std::string& origin) {
  PlainPickle pickle(bytes, origin);
  const DictionaryPtr meta = pickle.read();
  const Dictionary* itos = nullptr;
  for (const auto& [key, value] : meta->items) {
    const auto* name = std::get_if<TextPtr>(&key);
    const auto* inner = std::get_if<DictionaryPtr>(&value);
    if (name != nullptr && **name == "itos" && inner != nullptr) itos = inner->get();
  }
  if (itos == nullptr) pickle.refuse("it has no \"itos\" (character by id)");
  std::vector<char32_t> vocabulary(itos->items.size());
  std::vector<bool> given(itos->items.size());
  for (const auto& [key, value] : itos->items) {
    const auto* id = std::get_if<int64_t>(&key);
    const auto* text = std::get_if<TextPtr>(&value);
    const bool id_fits = id != nullptr && *id >= 0 &&
                         *id < static_cast<int64_t>(vocabulary.size()) &&
                         !given[static_cast<size_t>(*id)];
    if (!id_fits || text == nullptr)
      pickle.refuse("its \"itos\" does not number characters from 0");
    const std::string& character = **text;
    const std::optional<CodePoint> point =
        character.empty() ? std::nullopt : decode_utf8(character);
    if (!point || point->n_bytes != character.size()) {
      pickle.refuse(fmt::format(
          "its id {} is '{}', no single character", *id, escape_for_message(character)));
    }
    vocabulary[static_cast<size_t>(*id)] = point->value;
    given[static_cast<size_t>(*id)] = true;
  }
  return CharTokenizer(std::move(vocabulary), fmt::format("'{}'", origin));
}

CharTokenizer read_nanogpt_meta(const std::filesystem::path& path) {
  constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  const std::string bytes = read_file(path, FileRole::kData, kMaxBytes);
  return parse_nanogpt_meta(bytes, escape_for_message(path.string(), 4096));
}

std::shared_ptr<const Tokenizer> make_data_tokenizer(const std::string& name,
                                                     const std::filesystem::path& vocab) {
  if (std::filesystem::path(name).extension() == ".pkl") {
    return std::make_shared<const CharTokenizer>(read_nanogpt_meta(name));
  }
  return make_tokenizer(name, vocab);
}

}  // namespace tril
