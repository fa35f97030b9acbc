#pragma once
// Small pieces of SVG and HTML that all figures share.

#include <string>
#include <string_view>

namespace tril {

/// Text for HTML and SVG: & < > " ' escaped, control characters and invalid UTF-8 made visible, so
/// that no text of a run can become markup.
std::string escape_markup(std::string_view text);

/// A colour of a figure by its number, as `var(--c0, #0072b2)`: the page's own, else a fixed one.
/// Seven colours that people with any kind of colour vision can tell apart; then they repeat.
std::string series_color(int number);

/// How figures are drawn, in a page that defines the colours (page.css).
std::string_view figure_rules();

/// Colours and fonts of figures, for the <style> of an SVG that stands alone: light, and dark where
/// the reader's system asks for it.
std::string_view figure_style();

}  // namespace tril
