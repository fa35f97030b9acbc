#pragma once
// One text, several threads, the same ids.

#include <cstdint>
#include <string_view>
#include <vector>

#include "tril/tokenizer/tokenizer.h"

namespace tril {

/// The ids of `text`, as Tokenizer::encode gives them, whatever the number of threads: the text is
/// cut where safe_prefix allows. An error is the first one's in the text, with its offset there.
std::vector<int32_t> encode_in_parallel(const Tokenizer& tokenizer,
                                        std::string_view text,
                                        int64_t n_threads,
                                        SpecialText special = SpecialText::kIsText);

}  // namespace tril
