#pragma once
// A trace of what runs, by LibTorch's profiler.

#include <torch/torch.h>

#include <filesystem>
#include <functional>

namespace tril {

/// Runs `work` under the profiler and writes what it saw in Chrome's trace format: open it in
/// Perfetto or about:tracing. The file appears whole or not at all. ConfigError for a place that is
/// not there, ResourceError when the file cannot be
/// written.
void write_trace(const std::filesystem::path& path,
                 torch::Device device,
                 const std::function<void()>& work);

}  // namespace tril
