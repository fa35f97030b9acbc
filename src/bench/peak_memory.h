#pragma once
// The most memory that was ever held.

#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace tril {

/// Of this process (the kernel's high-water mark), or of the device's tensors.
inline int64_t peak_memory_bytes(torch::Device device) {
  if (!device.is_cpu()) {
    const auto index = device.has_index() ? device.index() : c10::DeviceIndex{0};
    return at::accelerator::getDeviceStats(index).allocated_bytes[0].peak;  // 0: all pools
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    int64_t kibibytes = 0;
    std::istringstream(line.substr(6)) >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace tril
