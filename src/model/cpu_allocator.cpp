#include "tril/model/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace tril {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallestBlock = size_t{1} << 20;  // below, malloc keeps memory by itself
constexpr size_t kHeaderBytes = 64;                 // keeps the alignment that LibTorch expects

/// In front of the memory that is handed out.
struct Header {
  size_t mapped_bytes = 0;  ///< 0: from malloc
};

/// Sizes in steps of an eighth of their power of two, so that nearly equal requests share blocks.
size_t block_size(size_t bytes) {
  const size_t step = std::max(std::bit_floor(bytes) / 8, size_t{4096});
  return (bytes + step - 1) / step * step;
}

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &CachingCpuAllocator::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CachingCpuAllocator::release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  static CachingCpuAllocator& instance() {
    static auto* const allocator = new CachingCpuAllocator;  // outlives every static tensor
    return *allocator;
  }

 private:
  static void release(void* data) {
    if (data != nullptr) instance().give_back(data);
  }

  void* take(size_t bytes) {
    const size_t wanted = bytes + kHeaderBytes;
    if (wanted < kSmallestBlock) {
      return with_header(c10::alloc_cpu(wanted), /*mapped_bytes=*/0);
    }
    const size_t size = block_size(wanted);
    const std::lock_guard<std::mutex> lock(mutex_);
    // The smallest kept block that is large enough, and not half as large again.
    auto kept = kept_.lower_bound(size);
    if (kept != kept_.end() && kept->first <= size + size / 2) {
      void* block = kept->second;
      in_use_ += kept->first;
      most_in_use_ = std::max(most_in_use_, in_use_);
      return with_header(block, extract(kept));
    }
    in_use_ += size;
    most_in_use_ = std::max(most_in_use_, in_use_);
    while (!kept_.empty() && mapped_ + size > most_in_use_ + most_in_use_ / 4) unmap_largest();
    void* block = map(size);
    while (block == nullptr && !kept_.empty()) {
      unmap_largest();
      block = map(size);
    }
    if (block == nullptr) in_use_ -= size;
    TORCH_CHECK_WITH(OutOfMemoryError,
                     block != nullptr,
                     "DefaultCPUAllocator: not enough memory: you tried to allocate ",
                     bytes,
                     " bytes.");
    mapped_ += size;
    return with_header(block, size);
  }

  void give_back(void* data) {
    void* block = static_cast<char*>(data) - kHeaderBytes;
    const size_t size = static_cast<Header*>(block)->mapped_bytes;
    if (size == 0) {
      c10::free_cpu(block);
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    in_use_ -= size;
    kept_.emplace(size, block);
  }

  static void* with_header(void* block, size_t mapped_bytes) {
    new (block) Header{mapped_bytes};
    return static_cast<char*>(block) + kHeaderBytes;
  }

  /// Forgets a kept block; returns its size.
  size_t extract(std::multimap<size_t, void*>::iterator kept) {
    const size_t size = kept->first;
    kept_.erase(kept);
    return size;
  }

  static void* map(size_t size) {
    void* block = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
#if defined(MADV_HUGEPAGE)
    if (size >= 2 * kHugePage) ::madvise(block, size, MADV_HUGEPAGE);  // a wish: no error matters
#endif
    return block;
  }

  void unmap_largest() {
    const auto last = std::prev(kept_.end());
    ::munmap(last->second, last->first);
    mapped_ -= extract(last);
  }

  std::mutex mutex_;
  std::multimap<size_t, void*> kept_;  ///< free blocks by size
  size_t in_use_ = 0, most_in_use_ = 0, mapped_ = 0;
};

}  // namespace

void use_caching_cpu_allocator() {
  constexpr uint8_t kAboveDefault = 1;
  c10::SetCPUAllocator(&CachingCpuAllocator::instance(), kAboveDefault);
}

}  // namespace tril
