#pragma once
// The shell of an HTML page that stands alone: one file, no network, light and dark.

#include <string>
#include <string_view>

#include "tril/base/json.h"

namespace tril {

struct Page {
  std::string title;
  std::string body;        ///< HTML
  std::string style = {};  ///< beside the common one
  std::string_view script = {};
  OrderedJson data = {};  ///< what the script reads as DATA; nothing when null
  bool live = false;      ///< may fetch from the server it came from
};

/// The whole document. Its content security policy forbids every request over the network (with
/// `live`, all but those to its own server), whatever a run's texts contain.
std::string render_page(const Page& page);

/// JSON text that may stand inside <script>: no "</" and no "<!--".
std::string json_for_script(const OrderedJson& json);

/// The JavaScript of interactive charts and heat maps that the pages share.
std::string_view chart_script();

}  // namespace tril
