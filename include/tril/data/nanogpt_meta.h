#pragma once
// nanoGPT's meta.pkl: which character each id of its train.bin and val.bin is.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tril/tokenizer/char_tokenizer.h"

namespace tril {

/// Reads the vocabulary of a `meta.pkl` (a Python pickle of {"vocab_size", "itos", "stoi"}) without
/// running any of it: a pickle of anything but numbers, texts and dictionaries is refused, and so
/// is an `itos` that does not give each id from 0 on one character. Throws DataError.
CharTokenizer read_nanogpt_meta(const std::filesystem::path& path);

/// The same of the bytes of such a file; `origin` names it in errors.
CharTokenizer parse_nanogpt_meta(std::string_view bytes, const std::string& origin);

/// make_tokenizer, which also takes a meta.pkl.
std::shared_ptr<const Tokenizer> make_data_tokenizer(const std::string& name,
                                                     const std::filesystem::path& vocab = {});

}  // namespace tril
