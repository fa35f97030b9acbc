#include "trace.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <system_error>

#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {

void write_trace(const std::filesystem::path& path,
                 torch::Device device,
                 const std::function<void()>& work) {
  namespace fs = std::filesystem;
  using torch::profiler::impl::ActivityType;
  // The profiler says nothing about a file it cannot open: open it first, for the error.
  const fs::path temporary = temporary_sibling(path);
  FileWriter(temporary).finish();
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  try {
    torch::autograd::profiler::prepareProfiler(config, activities);
    torch::autograd::profiler::enableProfiler(config, activities);
    work();
    torch::autograd::profiler::disableProfiler()->save(temporary.string());
    std::error_code error;
    if (fs::file_size(temporary, error) == 0) error = std::make_error_code(std::errc::io_error);
    if (!error) fs::rename(temporary, path, error);
    if (error) {
      throw ResourceError(
          fmt::format("the trace {} cannot be written: {}", path.string(), error.message()));
    }
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace tril
