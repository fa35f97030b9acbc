#pragma once
// The tokenizer without a vocabulary: every byte is its own id, so any file can be encoded.

#include <memory>

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// Ids 0..255 are the bytes of the text. tokenizer.json: {"type": "byte", "version": 1}.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// The same from a parsed tokenizer.json. Throws DataError for a wrong version or unknown keys.
std::unique_ptr<Tokenizer> byte_tokenizer_from_json(const Json& json, const std::string& origin);

}  // namespace tril
