#pragma once
// Tensor tests run on one thread: the same sums in the same order on every machine, and no time
// lost between threads on a busy one.

#include <ATen/Parallel.h>

namespace tril::testing {

inline const bool kOneThread = [] {
  at::set_num_threads(1);
  return true;
}();

}  // namespace tril::testing
