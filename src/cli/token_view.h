#pragma once
// Text with its tokens made visible: colours on a terminal, a page of HTML, or bars between them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tril::cli {

enum class ViewStyle {
  kBars,    ///< pieces with | between them, for files and pipes
  kColours  ///< a background colour for each piece, for terminals
};

/// One piece for a terminal: bytes that are no whole character, and control characters, appear as
/// \xNN; a line end is shown and kept. `index`: of the piece, picks its colour.
std::string view_piece(std::string_view bytes, int64_t index, ViewStyle style);

/// One piece for HTML: a coloured span whose title names id and bytes.
std::string html_piece(std::string_view bytes, int64_t id, int64_t index);
/// What stands before and after all pieces of a page; complete, with no other file needed.
std::string html_head(std::string_view title);
std::string html_tail(int64_t n_tokens, int64_t n_bytes);

}  // namespace tril::cli
