#include "tril/train/machine.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/model/matrix_product.h"
#include "tril/train/metrics.h"

namespace tril {
namespace {

constexpr double kMeasureSeconds = 0.1;

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "unknown";
}

double measure(torch::Device device, torch::ScalarType type) {
  const torch::NoGradGuard no_grad;
  const int64_t n = device.is_cpu() ? 768 : 8192;
  const torch::Tensor a = torch::full({n, n}, 0.5, torch::dtype(type).device(device));
  const double flops = 2.0 * static_cast<double>(n * n * n);
  double best_seconds = 1e9;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    const auto before = std::chrono::steady_clock::now();
    const torch::Tensor c = linear_product(a, a);
    c.narrow(0, 0, 1).narrow(1, 0, 1).to(torch::kCPU);  // waits for the device
    const auto after = std::chrono::steady_clock::now();
    if (i > 0) {  // the first one warms up
      best_seconds = std::min(best_seconds, std::chrono::duration<double>(after - before).count());
    }
    if (i >= 3 && std::chrono::duration<double>(after - start).count() > kMeasureSeconds) break;
  }
  return flops / best_seconds;
}

}  // namespace

double peak_matmul_rate(torch::Device device, torch::ScalarType type, int64_t threads) {
  try {
    const std::filesystem::path path = cache_folder() / "peak_rate.json";
    // "linear": measured with the products of a step (entries without it are older programs').
    const std::string key = fmt::format("{}, {}, {} threads, {}, LibTorch {}, linear",
                                        processor_name(),
                                        device.str(),
                                        threads,
                                        c10::toString(type),
                                        TORCH_VERSION);
    Json known = Json::object();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      try {
        known = read_json_file(path, FileRole::kData, /*max_bytes=*/1 << 20);
      } catch (const Error&) {
        known = Json::object();  // a damaged cache is made anew
      }
    }
    if (!known.is_object()) known = Json::object();
    if (known.contains(key) && known[key].is_number() && known[key].get<double>() > 0) {
      return known[key].get<double>();
    }
    known[key] = measure(device, type);
    write_file_atomically(path, dump_json(known) + "\n");
    return known[key].get<double>();
  } catch (const std::exception&) {
    return 0;  // a share of the peak is a comfort: never a reason to stop
  }
}

int64_t memory_in_use_bytes(torch::Device device) {
  if (device.is_cpu()) return resident_memory_bytes();
  const auto index = static_cast<c10::DeviceIndex>(device.has_index() ? device.index() : 0);
  return at::accelerator::getDeviceStats(index).allocated_bytes[0].current;  // 0: all pools
}

}  // namespace tril
