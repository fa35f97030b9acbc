// The entry point of one libFuzzer program; TRIL_FUZZ_TARGET is the function it drives.

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tril::fuzz::TRIL_FUZZ_TARGET(data, size);
  return 0;
}
