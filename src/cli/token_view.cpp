#include "token_view.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "tril/base/utf8.h"

namespace tril::cli {
namespace {

/// Six light backgrounds; neighbours differ.
constexpr std::array<int, 6> kTerminalColours = {153, 157, 223, 217, 189, 229};
constexpr std::array<const char*, 6> kPageColours = {
    "#cfe3ff", "#cdf3d3", "#ffe2bd", "#ffd0d0", "#e2d6ff", "#fff3b0"};

/// Calls `whole(character's bytes)` or `escape(byte)` for what `bytes` holds. Control characters
/// but line ends and tabs are escaped, and so is what could change the terminal's direction of
/// writing.
template <typename Whole, typename Escape>
void for_each_character(std::string_view bytes, Whole&& whole, Escape&& escape) {
  while (!bytes.empty()) {
    const std::optional<CodePoint> point = decode_utf8(bytes);
    const size_t n_bytes = point ? point->n_bytes : 1;
    const char32_t c = point ? point->value : 0;
    const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    const bool is_steering = (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
                             (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
    if (!point || is_control || is_steering) {
      for (size_t i = 0; i < n_bytes; ++i) escape(static_cast<uint8_t>(bytes[i]));
    } else {
      whole(bytes.substr(0, n_bytes));
    }
    bytes.remove_prefix(n_bytes);
  }
}

}  // namespace

std::string view_piece(std::string_view bytes, int64_t index, ViewStyle style) {
  std::string text;
  const bool has_colours = style == ViewStyle::kColours;
  const std::string on = fmt::format(
      "\x1b[48;5;{};30m", kTerminalColours[static_cast<size_t>(index) % kTerminalColours.size()]);
  const std::string off = "\x1b[0m";
  if (has_colours) {
    text += on;
  } else if (index > 0) {
    text += '|';
  }
  for_each_character(
      bytes,
      [&](std::string_view character) {
        if (character == "\n") {
          text += has_colours ? "\u21b5" + off + "\n" + on : "\\n\n";
        } else {
          text += character;
        }
      },
      [&](uint8_t byte) { text += fmt::format("\\x{:02x}", byte); });
  if (has_colours) text += off;
  return text;
}

std::string html_piece(std::string_view bytes, int64_t id, int64_t index) {
  std::string inside;
  for_each_character(
      bytes,
      [&](std::string_view character) {
        if (character == "<") {
          inside += "&lt;";
        } else if (character == ">") {
          inside += "&gt;";
        } else if (character == "&") {
          inside += "&amp;";
        } else if (character == "\n") {
          inside += "\u21b5\n";
        } else {
          inside += character;
        }
      },
      [&](uint8_t byte) { inside += fmt::format("<i>{:02x}</i>", byte); });
  std::string title = fmt::format("id {}, bytes", id);
  for (const char byte : bytes.substr(0, 64)) {
    title += fmt::format(" {:02x}", static_cast<uint8_t>(byte));
  }
  return fmt::format("<span class=c{} title=\"{}\">{}</span>",
                     static_cast<size_t>(index) % kPageColours.size(),
                     title,
                     inside);
}

std::string html_head(std::string_view title) {
  std::string safe;
  for (const char c : title) {
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta "
      "charset=\"utf-8\"><title>{}</title>\n<style>\n"
      "body {{ font: 16px/1.7 system-ui, sans-serif; margin: 2em; color: #222; background: #fff "
      "}}\n"
      "pre {{ white-space: pre-wrap; overflow-wrap: anywhere; font: inherit }}\n"
      "i {{ font: 0.75em monospace; color: #a00 }}\n",
      safe);
  for (size_t i = 0; i < kPageColours.size(); ++i) {
    page += fmt::format(".c{} {{ background: {} }}\n", i, kPageColours[i]);
  }
  return page + fmt::format("</style></head>\n<body><h1>{}</h1>\n<pre>", safe);
}

std::string html_tail(int64_t n_tokens, int64_t n_bytes) {
  return fmt::format(
      "</pre>\n<p>{} tokens, {} bytes, {:.2f} bytes per token. Point at a piece for its id.</p>\n"
      "</body></html>\n",
      n_tokens,
      n_bytes,
      n_tokens > 0 ? static_cast<double>(n_bytes) / static_cast<double>(n_tokens) : 0.0);
}

}  // namespace tril::cli
