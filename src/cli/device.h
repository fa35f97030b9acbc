#pragma once
// Which device to compute on, and with how many threads.

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "tril/distributed/world.h"

namespace tril::cli {

/// The device a name stands for. "auto": the first GPU when there is a usable one, else the CPU,
/// and a notice says so. A request for CUDA is never turned into a CPU run: ConfigError with the
/// reason. "cpu" asks the CUDA driver nothing.
c10::Device choose_device(const std::string& name);

/// The same for one of several processes: on a GPU each takes the one of its number on its machine.
c10::Device choose_device(const std::string& name, const World& world);

/// How a device computes in training: on a GPU matrix products of fp32 run in TF32 (10 bits of
/// mantissa, several times as fast; what torch.set_float32_matmul_precision("high") asks for). The
/// CPU is left as it is: full fp32.
void prepare_for_training(c10::Device device);

/// Why no CUDA device can be used; empty when one can.
std::string why_no_cuda();

/// Sets LibTorch's threads; 0: default_threads(). Returns the number set.
int64_t set_threads(int64_t threads, int64_t local_processes = 1);

/// OMP_NUM_THREADS when set, else the CPUs this process may use (affinity and cgroup quota), shared
/// with the run's other processes on this machine.
int64_t default_threads(int64_t local_processes = 1);

/// Bytes of memory that can still be had: the lowest of the system's available memory, what a
/// cgroup leaves and what `ulimit -v` leaves; 0 when unknown.
int64_t available_memory_bytes();

}  // namespace tril::cli
