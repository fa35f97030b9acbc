#pragma once
// One header for Catch2 2.13 (Debian 12) and 3.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) {
  return Catch::Matchers::Contains(text);
}
#endif

#include <cstdio>

/// A test that cannot run here says so; CTest shows it as skipped (SKIP_REGULAR_EXPRESSION).
#define TRIL_SKIP(reason)                 \
  do {                                    \
    std::printf("SKIPPED: %s\n", reason); \
    return;                               \
  } while (false)
