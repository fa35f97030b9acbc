#include "device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "tril/base/error.h"
#include "tril/config/run_config.h"

namespace tril::cli {
namespace {

constexpr int64_t kMostThreads = 4096;  // as the config's own limit

int64_t cuda_device_count() {
  try {
    return static_cast<int64_t>(torch::cuda::device_count());
  } catch (const std::exception&) {
    return 0;
  }
}

/// The first number in a file; nothing for a missing file or other text ("max").
std::optional<int64_t> number_in_file(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

}  // namespace

std::string why_no_cuda() {
  if (!at::globalContext().hasCUDA() && !torch::cuda::is_available()) {
    if (cuda_device_count() == 0 && std::string(TRIL_CUDA_REASON).empty()) {
      return "LibTorch's CUDA libraries are linked, but they find no NVIDIA GPU (0 devices): is "
             "the "
             "driver installed, and does CUDA_VISIBLE_DEVICES allow one?";
    }
    return fmt::format(
        "this tril is linked to LibTorch's CPU libraries only ({}). With a GPU: "
        "TRIL_CUDA=1 scripts/setup.sh, then cmake --preset cuda",
        TRIL_CUDA_REASON);
  }
  if (cuda_device_count() == 0) return "0 CUDA devices are visible";
  return {};
}

c10::Device choose_device(const std::string& name) {
  if (!is_device_name(name)) {
    throw ConfigError(fmt::format("device '{}': expected auto, cpu, cuda or cuda:N", name));
  }
  if (name == "cpu") return c10::Device(c10::kCPU);
  const std::string reason = why_no_cuda();
  if (name == "auto") {
    if (reason.empty()) return c10::Device(c10::kCUDA, 0);
    spdlog::debug("device auto: using the CPU: {}", reason);
    return c10::Device(c10::kCPU);
  }
  if (!reason.empty()) {
    throw ConfigError(fmt::format("device {} is not there: {}", name, reason));
  }
  int index = 0;
  if (const auto colon = name.find(':'); colon != std::string::npos) {
    std::from_chars(name.data() + colon + 1, name.data() + name.size(), index);
  }
  if (index >= cuda_device_count()) {
    throw ConfigError(
        fmt::format("device {} is not there: {} CUDA devices are visible, numbered from 0",
                    name,
                    cuda_device_count()));
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

c10::Device choose_device(const std::string& name, const World& world) {
  const c10::Device device = choose_device(name);
  if (device.is_cpu() || world.size == 1) return device;
  if (name.find(':') != std::string::npos) {
    throw ConfigError(fmt::format(
        "device {}: several processes cannot share one GPU. Give cuda: each takes the GPU of its "
        "number on its machine",
        name));
  }
  if (world.local_rank >= cuda_device_count()) {
    throw ConfigError(fmt::format(
        "rank {} is process {} of {} on its machine, where {} CUDA devices are visible: one is "
        "needed for each process",
        world.rank,
        world.local_rank,
        world.local_size,
        cuda_device_count()));
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(world.local_rank));
}

void prepare_for_training(c10::Device device) {
  if (!device.is_cpu()) at::globalContext().setFloat32MatmulPrecision("high");
}

int64_t default_threads(int64_t local_processes) {
  // A launcher's or queue's word counts: it knows what else runs here.
  if (const char* wanted = std::getenv("OMP_NUM_THREADS")) {
    const int64_t n = std::atoll(wanted);
    if (n >= 1 && n <= kMostThreads) return n;
  }
  auto n = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  // cgroup v2: "<quota> <period>" in microseconds, or "max <period>".
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (file >> quota >> period && quota > 0 && period > 0) {
    n = std::min(n, std::max<int64_t>(1, std::llround(std::ceil(quota / period))));
  }
  return std::max<int64_t>(1, n / local_processes);
}

int64_t set_threads(int64_t threads, int64_t local_processes) {
  const int64_t n = threads > 0 ? threads : default_threads(local_processes);
  at::set_num_threads(static_cast<int>(n));
  return n;
}

int64_t available_memory_bytes() {
  int64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) {
      std::istringstream(line.substr(13)) >> available;
      available *= 1024;
    }
  }
  // A cgroup's use counts file caches too, which give way; so only its limit is compared.
  if (const auto limit = number_in_file("/sys/fs/cgroup/memory.max")) {
    available = available > 0 ? std::min(available, *limit) : *limit;
  }
  // ulimit -v, less what the program itself has mapped already.
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    int64_t mapped_pages = 0;
    std::ifstream("/proc/self/statm") >> mapped_pages;
    const int64_t left =
        static_cast<int64_t>(space.rlim_cur) - mapped_pages * static_cast<int64_t>(getpagesize());
    available = std::max<int64_t>(1, std::min(available, left));
  }
  return available;
}

}  // namespace tril::cli
