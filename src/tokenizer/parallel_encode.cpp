#include "tril/tokenizer/parallel_encode.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

namespace tril {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;

struct Part {
  size_t begin = 0;
  size_t end = 0;
  std::vector<int32_t> ids = {};
  std::exception_ptr failure = {};
};

std::vector<Part> cut(const Tokenizer& tokenizer, std::string_view text, SpecialText special) {
  std::vector<Part> parts;
  size_t n_bytes = kPartBytes;
  for (size_t begin = 0; begin < text.size();) {
    const bool at_end = text.size() - begin <= n_bytes;
    const size_t safe = tokenizer.safe_prefix(text.substr(begin, n_bytes), at_end, special);
    if (safe == 0) {
      n_bytes *= 2;  // no place for a cut: look further
      continue;
    }
    parts.push_back({begin, begin + safe});
    begin += safe;
    n_bytes = kPartBytes;
  }
  return parts;
}

}  // namespace

std::vector<int32_t> encode_in_parallel(const Tokenizer& tokenizer,
                                        std::string_view text,
                                        int64_t n_threads,
                                        SpecialText special) {
  if (n_threads <= 1 || text.size() <= kPartBytes) return tokenizer.encode(text, special);
  std::vector<Part> parts = cut(tokenizer, text, special);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++) {
      Part& part = parts[i];
      try {
        tokenizer.encode_to(text.substr(part.begin, part.end - part.begin), part.ids, special);
      } catch (const EncodeError& error) {
        part.failure = std::make_exception_ptr(
            error.located(error.offset() + static_cast<int64_t>(part.begin), ""));
      } catch (...) {
        part.failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < n_threads; ++i) threads.emplace_back(work);
    work();
  }
  size_t n_ids = 0;
  for (const Part& part : parts) {
    if (part.failure) std::rethrow_exception(part.failure);
    n_ids += part.ids.size();
  }
  std::vector<int32_t> ids;
  ids.reserve(n_ids);
  for (Part& part : parts) {
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    part.ids = {};
  }
  return ids;
}

}  // namespace tril
