#include "trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <system_error>

#include "tril/base/error.h"
#include "tril/base/file.h"

namespace tril {
namespace {

/// While alive, what is written to stderr goes nowhere: the profiler reports there that it begins
/// and ends, and, as an error, that a machine without a GPU has none.
class QuietStderr {
 public:
  QuietStderr() : stderr_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (stderr_ >= 0 && nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    if (nowhere >= 0) close(nowhere);
  }
  ~QuietStderr() {
    if (stderr_ < 0) return;
    std::fflush(stderr);
    dup2(stderr_, STDERR_FILENO);
    close(stderr_);
  }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  int stderr_;
};

}  // namespace

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
  const QuietStderr quiet;
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
