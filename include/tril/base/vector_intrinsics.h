#pragma once
// The processor's vector instructions by name, where there are some: x86-64.

#if defined(__x86_64__)
// GCC 12 warns about this header's own "undefined" values (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
