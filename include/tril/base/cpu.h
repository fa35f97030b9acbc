#pragma once
// What this processor can do.

namespace tril {

/// True when the processor multiplies bfloat16 numbers in vector or tile instructions (AVX512_BF16
/// or AMX on x86-64): matrix products in bfloat16 then run about twice as fast as in float32.
bool cpu_has_bf16_products();

/// Vectors of 512 bits, as of AVX-512's foundation.
bool cpu_has_avx512();

bool cpu_is_intel();

}  // namespace tril
