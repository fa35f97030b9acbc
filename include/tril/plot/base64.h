#pragma once
// Base64 (RFC 4648), for numbers inside a page.

#include <string>
#include <string_view>

namespace tril {

std::string base64(std::string_view bytes);

}  // namespace tril
