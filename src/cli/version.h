#pragma once

#include <string>

namespace tril::cli {

/// "tril 0.1.0 (git abc1234), LibTorch 2.15.0, CUDA: no".
std::string version_text();
/// Compiler, build type and flags.
std::string build_text();

}  // namespace tril::cli
