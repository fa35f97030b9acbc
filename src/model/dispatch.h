#pragma once
// One kernel, compiled for several instruction sets; chosen at run time. Only for the kernels in
// this folder: their files are plain loops over memory and include no Torch header.

#if defined(__x86_64__)
#define TRIL_AVX2 __attribute__((target("avx2,fma")))
#define TRIL_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#endif

namespace tril {

/// `Body` is a TRIL_INLINE function; each version inlines it and is compiled for its own set.
template <auto Body>
struct Versions;

template <typename... Args, void (*Body)(Args...)>
struct Versions<Body> {
  using Function = void (*)(Args...);

  /// For any processor: the twin in tests.
  static void portable(Args... args) { Body(args...); }

#if defined(__x86_64__)
  TRIL_AVX2 static void avx2(Args... args) {
    Body(args...);
  }
  TRIL_AVX512 static void avx512(Args... args) {
    Body(args...);
  }

  /// The widest version that this processor runs.
  static Function best() {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
      return avx512;
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2 : portable;
  }
#else
  static Function best() {
    return portable;
  }
#endif
};

}  // namespace tril
