#include "tril/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tril {

bool cpu_has_bf16_products() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return false;  // asks the system's support as well
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  // Leaf 7: AMX-BF16 is bit 22 of edx of subleaf 0, AVX512_BF16 bit 5 of eax of subleaf 1.
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ((edx >> 22) & 1U) != 0) return true;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && ((eax >> 5) & 1U) != 0;
#else
  return false;
#endif
}

bool cpu_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

bool cpu_is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

}  // namespace tril
