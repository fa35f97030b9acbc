#pragma once
// Where the memory of large CPU tensors comes from.

namespace tril {

/// From here on large CPU tensors (1 MiB and more) take their memory from blocks that the process
/// keeps, in huge pages where the system grants them. A training step asks for the same sizes again
/// and again; from the system each time, every page is faulted in anew: a fifth of a step of
/// GPT-2's head on a CPU. What is kept is bounded: mapped memory stays below 5/4 of the most that
/// was ever in use. Call once, before the first tensor is made. Lack of memory is
/// c10::OutOfMemoryError.
void use_caching_cpu_allocator();

}  // namespace tril
