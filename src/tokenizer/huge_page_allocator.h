#pragma once
// Memory for large tables that are read at random.

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace tril {

/// Asks the system for pages of 2 MB, of which a processor remembers the places of far more memory
/// than of those of 4 KB. Small memory is the usual one.
template <typename T>
struct HugePageAllocator {
  using value_type = T;
  static constexpr std::size_t kPageBytes = std::size_t{2} << 20;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}

  static std::align_val_t alignment(std::size_t n) {
    return std::align_val_t{n * sizeof(T) >= kPageBytes ? kPageBytes : alignof(T)};
  }
  T* allocate(std::size_t n) {
    void* const memory = ::operator new(n * sizeof(T), alignment(n));
    // A wish: the memory is as good where it is not granted.
    if (n * sizeof(T) >= kPageBytes) madvise(memory, n * sizeof(T), MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) { ::operator delete(memory, alignment(n)); }

  bool operator==(const HugePageAllocator&) const = default;
};

}  // namespace tril
